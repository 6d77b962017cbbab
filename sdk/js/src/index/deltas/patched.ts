/** Documents after a delta: the older ones that stay and those that came, in the new order. */
import { type Added, AddedDocuments } from "../added.js";
import type { Document } from "../document.js";
import { parseExactly, parseMetadata } from "../metadata.js";
import type { Postings } from "../part.js";
import { compareBytes } from "../sqlite.js";
import { encodeUtf8 } from "../../utf8.js";
import type { BaseDocuments, StoredTexts, TermPostings } from "./base.js";
import type { Changes, NewEntry } from "./delta.js";

const GONE = -1;
const COUNTS = 65536; // a count is less
const NONE: Postings = { rows: new Uint32Array(0), counts: new Uint16Array(0) };

/** Documents of which each is one of `old`, or came with a delta. */
export class PatchedDocuments implements BaseDocuments {
  readonly count: number;
  readonly lengths: Uint32Array;
  readonly languages: Uint16Array;
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
   * @param came the entries of `changes`, analyzed
   * @param file what to call the delta in errors
   */
  constructor(
    private readonly old: BaseDocuments,
    { order, entries }: Changes,
    came: readonly Added[],
    file: string,
  ) {
    this.file = file;
    this.entries = entries;
    this.count = order.length;
    this.origins = order.slice();
    this.places = new Int32Array(old.count).fill(GONE);
    this.lengths = new Uint32Array(order.length);
    this.languages = new Uint16Array(order.length);
    for (const [row, from] of order.entries()) {
      if (from >= 0) {
        this.places[from] = row;
        this.lengths[row] = old.lengths[from]!;
        this.languages[row] = old.languages[from]!;
        continue;
      }
      const number = this.newRows.push(row) - 1;
      this.came.add(came[number]!);
      this.origins[row] = -1 - number;
      this.lengths[row] = this.came.lengths[number]!;
      this.languages[row] = this.came.languages[number]!;
    }
  }

  postings(term: string): Postings {
    return this.merged(this.old.postings(term), this.came.postings(term));
  }

  /** Postings of older rows and of what came, in the new order. */
  private merged(was: Postings, came: Postings): Postings {
    if (was.rows.length === 1 && !came.rows.length) {
      const row = this.places[was.rows[0]!]!; // as of most terms
      return row === GONE ? NONE : { rows: Uint32Array.of(row), counts: was.counts };
    }
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

  *postingsByTerm(): Generator<TermPostings> {
    const names = new Set(this.came.entries.flatMap(({ terms }) => [...terms.keys()]));
    const came = Array.from(names, (name) => ({ name, term: encodeUtf8(name) }));
    came.sort((left, right) => compareBytes(left.term, right.term));
    const own = ({ name, term }: (typeof came)[number], was = NONE): TermPostings => ({
      term,
      ...this.merged(was, this.came.postings(name)),
    });
    let next = 0;
    for (const was of this.old.postingsByTerm()) {
      let order = -1;
      while (next < came.length && (order = compareBytes(came[next]!.term, was.term)) < 0) {
        yield own(came[next++]!);
      }
      if (next < came.length && order === 0) yield own(came[next++]!, was);
      else yield { term: was.term, ...this.merged(was, NONE) };
    }
    for (const one of came.slice(next)) yield own(one);
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
