/** The documents that a publisher made: those of its file, or of its file and its deltas. */
import type { Part } from "../part.js";

/** The texts of a row, to the letter. */
export interface StoredTexts {
  readonly id: string;
  readonly metadata: string;
  readonly text: string;
}

/** Documents that are there when an index is opened, before what was changed here. */
export interface BaseDocuments extends Part {
  /** Rows of deleted documents. */
  readonly deleted: readonly number[];

  /** The texts of a row that is not deleted. */
  texts(row: number): StoredTexts;

  /** Every term once, as UTF-8, in the order of its bytes; one may be of no row that is left. */
  terms(): Iterable<Uint8Array>;
}
