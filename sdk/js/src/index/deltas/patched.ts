/** Documents after a delta: the older ones that stay and those that came, in the new order. */
import { type Added, AddedDocuments, analyzed } from "../added.js";
import type { Document } from "../document.js";
import { parseExactly, parseMetadata } from "../metadata.js";
import type { Postings } from "../part.js";
import { compareBytes } from "../sqlite.js";
import { encodeUtf8 } from "../../utf8.js";
import type { BaseDocuments, StoredTexts } from "./base.js";
import type { Changes, NewEntry } from "./delta.js";

const GONE = -1;
const COUNTS = 65536; // a count is less

/** Documents of which each is one of `old`, or came with a delta. */
export class PatchedDocuments implements BaseDocuments {
  readonly count: number;
  readonly lengths: Uint32Array;
  readonly deleted: readonly number[] = [];
  /** The row of each of the older documents now, int32; {@link GONE} where it has none. */
  private readonly places: Int32Array;
  /** The row of each document that came, rising. */
  private readonly newRows: number[] = [];
  /** For each row the older one, or -1 - n for what came as the n-th, int32. */
  private readonly origins: Int32Array;
  private readonly came = new AddedDocuments();
  private readonly entries: readonly NewEntry[];
  private readonly file: string;

  /**
   * @param changes whose order names each older row at most once
   * @param file what to call the delta in errors
   */
  constructor(
    private readonly old: BaseDocuments,
    { order, entries }: Changes,
    file: string,
  ) {
    this.file = file;
    this.entries = entries;
    this.count = order.length;
    this.origins = order.slice();
    this.places = new Int32Array(old.count).fill(GONE);
    this.lengths = new Uint32Array(order.length);
    for (const [row, from] of order.entries()) {
      if (from >= 0) {
        this.places[from] = row;
        this.lengths[row] = old.lengths[from]!;
        continue;
      }
      const number = this.newRows.push(row) - 1;
      const { document, vector } = entries[number]!;
      const added: Added = analyzed(document, vector);
      this.came.add(added);
      this.origins[row] = -1 - number;
      this.lengths[row] = this.came.lengths[number]!;
    }
  }

  postings(term: string): Postings {
    const [was, came] = [this.old.postings(term), this.came.postings(term)];
    // Row and count as one number, so that one sort of numbers puts both into order.
    const keys = new Float64Array(was.rows.length + came.rows.length);
    let found = 0;
    for (let i = 0; i < was.rows.length; i++) {
      const row = this.places[was.rows[i]!]!;
      if (row !== GONE) keys[found++] = row * COUNTS + was.counts[i]!;
    }
    for (let i = 0; i < came.rows.length; i++) {
      keys[found++] = this.newRows[came.rows[i]!]! * COUNTS + came.counts[i]!;
    }
    const sorted = keys.subarray(0, found).sort();
    return {
      rows: Uint32Array.from(sorted, (key) => Math.floor(key / COUNTS)),
      counts: Uint16Array.from(sorted, (key) => key % COUNTS),
    };
  }

  rowOf(id: string): number | undefined {
    const number = this.came.rowOf(id);
    if (number !== undefined) return this.newRows[number];
    const row = this.old.rowOf(id);
    const place = row === undefined ? GONE : this.places[row]!;
    return place === GONE ? undefined : place;
  }

  document(row: number): Document {
    const entry = this.entry(row);
    if (!entry) return this.old.document(this.origins[row]!);
    const { id, text, metadata } = entry.texts;
    return { id, text, metadata: parseMetadata(metadata, this.file) };
  }

  texts(row: number): StoredTexts {
    return this.entry(row)?.texts ?? this.old.texts(this.origins[row]!);
  }

  *terms(): Generator<Uint8Array> {
    const came = [...new Set(this.came.entries.flatMap(({ terms }) => [...terms.keys()]))];
    const sorted = came.map(encodeUtf8).sort(compareBytes);
    let next = 0;
    for (const term of this.old.terms()) {
      while (next < sorted.length && compareBytes(sorted[next]!, term) < 0) yield sorted[next++]!;
      if (next < sorted.length && compareBytes(sorted[next]!, term) === 0) next++;
      yield term;
    }
    yield* sorted.slice(next);
  }

  prepare(fields: ReadonlySet<string>): void {
    this.old.prepare(fields);
  }

  value(row: number, field: string): unknown {
    const entry = this.entry(row);
    if (!entry) return this.old.value(this.origins[row]!, field);
    const metadata = parseExactly(entry.texts.metadata, this.file);
    return Object.hasOwn(metadata, field) ? metadata[field] : undefined;
  }

  /** What came with the delta in this row; undefined where it is an older document. */
  private entry(row: number): NewEntry | undefined {
    const from = this.origins[row]!;
    return from < 0 ? this.entries[-1 - from] : undefined;
  }
}
