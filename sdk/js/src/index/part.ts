/** What the documents of a publisher's file and those added on the device have in common. */
import type { Document } from "./document.js";

/** Where a term occurs: rows of the part, and how often in each, both (m,). */
export interface Postings {
  readonly rows: Uint32Array;
  readonly counts: Uint16Array;
}

/** A run of rows. Rows count from 0 in each part, deleted ones among them. */
export interface Part {
  /** Rows, deleted ones among them. */
  readonly count: number;

  /** Terms in each row's document, (count,). */
  readonly lengths: ArrayLike<number>;

  /** The number of each row's language, see languages.ts, (count,). */
  readonly languages: ArrayLike<number>;

  postings(term: string): Postings;

  /** The row of the document `id` that was not deleted in the part itself. */
  rowOf(id: string): number | undefined;

  /** The document of a row that is not deleted. */
  document(row: number): Document;

  /** What {@link Part.value} will be asked for. */
  prepare(fields: ReadonlySet<string>): void;

  /** A field of a row's metadata, see metadata.ts; undefined where it is absent. */
  value(row: number, field: string): unknown;
}
