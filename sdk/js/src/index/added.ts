/**
 * The documents added on the device, in memory. Deleting one erases its id, text and metadata and
 * keeps its terms and vector, which count until the changes are compacted, as in Python's index.
 */
import type { Analyzer, Occurrences } from "../words/analyzer.js";
import { content, type Document } from "./document.js";
import { languageNumber } from "./languages.js";
import { parseMetadata } from "./metadata.js";
import type { Part, Postings } from "./part.js";
import { withoutVector } from "./vectors/vectors.js";

const MOST_COUNT = 65535; // of a term in a document, as Python stores it
const LEAST_BYTES = 2; // of a document's terms together, in UTF-8
const ADDED = "the added documents";

/** One added document; `document` is null where it was deleted since. */
export interface Added extends Occurrences {
  readonly document: Document | null;
  /** Of its metadata, see languages.ts. */
  readonly language: number;
  /** Its vector's row, uint8 (d + 4,). */
  readonly vector: Uint8Array;
}

/** A document with what its search needs; one that says too little has no place by meaning. */
export async function analyzed(
  analyzer: Analyzer,
  document: Document,
  vector: Uint8Array,
  signal?: AbortSignal,
): Promise<Added> {
  const { terms, length } = await analyzer.occurrences(content(document), signal);
  const row = isPlaced(terms, length) ? vector : withoutVector(vector.length);
  return { document, terms, length, language: languageNumber(document.metadata), vector: row };
}

/**
 * Whether a document has a place by meaning: not one without text, of punctuation, or of a single letter
 * or digit. An encoder gives all of them about one vector, which is nearer to most short queries than the
 * documents that answer them.
 */
function isPlaced(terms: ReadonlyMap<string, number>, length: number): boolean {
  return length >= LEAST_BYTES || [...terms.keys()].some((term) => term.length >= LEAST_BYTES || term > "\x7f");
}

/** Added documents; rows in the order in which they were added. */
export class AddedDocuments implements Part {
  readonly entries: Added[] = [];
  readonly lengths: number[] = [];
  readonly languages: number[] = [];
  private readonly terms = new Map<string, { rows: number[]; counts: number[] }>();
  private readonly rows = new Map<string, number>();

  get count(): number {
    return this.entries.length;
  }

  /** Add a document in the next row. */
  add(added: Added): void {
    const row = this.entries.push(added) - 1;
    for (const [term, count] of added.terms) {
      let postings = this.terms.get(term);
      if (!postings) this.terms.set(term, (postings = { rows: [], counts: [] }));
      postings.rows.push(row);
      postings.counts.push(Math.min(count, MOST_COUNT));
    }
    this.lengths.push(added.length);
    this.languages.push(added.language);
    if (added.document) this.rows.set(added.document.id, row);
  }

  /** Erase the document of a row. */
  erase(row: number): void {
    const entry = this.entries[row]!;
    if (entry.document) this.rows.delete(entry.document.id);
    this.entries[row] = { ...entry, document: null };
  }

  /** Every term once, and how many documents have it. */
  *frequencies(): Generator<[term: string, documents: number]> {
    for (const [term, { rows }] of this.terms) yield [term, rows.length];
  }

  postings(term: string): Postings {
    const found = this.terms.get(term);
    return { rows: Uint32Array.from(found?.rows ?? []), counts: Uint16Array.from(found?.counts ?? []) };
  }

  rowOf(id: string): number | undefined {
    return this.rows.get(id);
  }

  document(row: number): Document {
    const document = this.entries[row]!.document!;
    return { ...document, metadata: parseMetadata(JSON.stringify(document.metadata), ADDED) };
  }

  prepare(): void {
    // Everything is at hand.
  }

  value(row: number, field: string): unknown {
    const { document } = this.entries[row]!;
    if (!document) return undefined;
    return Object.hasOwn(document.metadata, field) ? document.metadata[field] : undefined;
  }
}
