/** The documents that a publisher made: those of its file, or of its file and its deltas. */
import type { Analyzer } from "../../words/analyzer.js";
import type { Document } from "../document.js";
import type { Part, Postings } from "../part.js";

/** The texts of a row, to the letter. */
export interface StoredTexts {
  readonly id: string;
  readonly metadata: string;
  readonly text: string;
}

/** A term as UTF-8, and where it occurs. */
export interface TermPostings extends Postings {
  readonly term: Uint8Array;
}

/** Documents that are there when an index is opened, before what was changed here. */
export interface BaseDocuments extends Part {
  /** Rows of deleted documents. */
  readonly deleted: readonly number[];

  /** The texts of a row that is not deleted. */
  texts(row: number): StoredTexts;

  /** Every term once, in the order of its bytes; one may be of no row that is left. */
  postingsByTerm(): Iterable<TermPostings>;
}

/** An index as it was read, or as deltas make it. */
export interface Base {
  /** How errors call it. */
  readonly name: string;
  readonly spaceId: string;
  readonly dimension: number;
  readonly analyzer: Analyzer;
  readonly documents: BaseDocuments;
  /** The vectors, uint8 (n, d + 4). */
  readonly rows: Uint8Array;
  /** Of the key it says it is signed by; null where it is not signed. */
  readonly signatureKeyId: string | null;
}

/** Of a publisher who made none: an index that begins on the device. */
export class NoDocuments implements BaseDocuments {
  readonly count = 0;
  readonly lengths = [];
  readonly languages = [];
  readonly deleted = [];

  postings(): Postings {
    return { rows: new Uint32Array(), counts: new Uint16Array() };
  }

  rowOf(): undefined {
    return undefined;
  }

  document(row: number): Document {
    throw new RangeError(`row ${row} of no documents`);
  }

  texts(row: number): StoredTexts {
    throw new RangeError(`row ${row} of no documents`);
  }

  postingsByTerm(): Iterable<TermPostings> {
    return [];
  }

  prepare(): void {
    // Nothing is there.
  }

  value(): undefined {
    return undefined;
  }
}
