/** What may be searched for, checked before the index is touched. Python's `query.py`. */
import { InvalidInputError } from "../errors.js";
import { repr, shortened, show } from "../python_text.js";
import { checkCount, checkText, type Names } from "../texts.js";
import type { Analyzer } from "../words/analyzer.js";
import { asksNothing, type Query } from "../words/query.js";
import type { Filter } from "./filters.js";
import { unitVector, type VectorLike } from "./vectors/vectors.js";

const MODES = ["dense", "lexical", "hybrid"] as const;

/** By meaning (cosine), by words (BM25), or both. */
export type Mode = (typeof MODES)[number];

/** What a search needs of an encoder; and what adding without vectors needs, too. */
export interface QueryEncoder {
  readonly spaceId: string;
  /** Of its vectors; an index that begins on the device takes it from here. */
  readonly dimension?: number;
  encodeQuery(text: string): Float32Array | Promise<Float32Array>;
  /** Whether it is made for a text; a hybrid search goes by words alone where it is not. Absent: for every one. */
  reads?(text: string): boolean | Promise<boolean>;
  encodeDocument?(
    texts: readonly string[],
    options: AddOptions & { readonly between: () => Promise<void> },
  ): readonly Float32Array[] | Promise<readonly Float32Array[]>;
}

/** What a long adding listens to, and tells. */
export interface AddOptions {
  /** Ends it with its reason before anything is stored. */
  readonly signal?: AbortSignal | undefined;
  /** Told after each document how many are encoded, of how many. */
  readonly onProgress?: ((done: number, documents: number) => void) | undefined;
}

export const ADD_OPTIONS: Names<AddOptions> = { signal: true, onProgress: true };

/** How to search. */
export interface SearchOptions {
  /** How many documents, at least 1; 10 by default. */
  readonly k?: number;
  /** By default hybrid for a text, dense for a vector. */
  readonly mode?: Mode;
  /** Conditions on the metadata, see filters.ts. */
  readonly filter?: Filter;
  /** The vector of a text, where it is encoded already. */
  readonly vector?: VectorLike;
  /**
   * The least score of a hit. Scores of one mode can be compared between queries by meaning or hybrid.
   * Absent or null: any.
   */
  readonly minScore?: number | null;
  /** The last word is still being typed, and stands for all that begin with it; `"` or `-word` alone finds nothing. */
  readonly prefix?: boolean;
  /** How many of the best to pass over; 0 by default. Pages fit together: the first hits do not depend on `k`. */
  readonly offset?: number;
  /**
   * A field of the metadata such as "path", as in a filter. Of the documents that have one value of it only the best
   * is a hit; its `others` counts further ones, and `k` and `offset` count groups.
   */
  readonly groupBy?: string;
  /** Codes such as ["de", "en"]: only documents whose field "language" is one of them, or a region of it. */
  readonly languages?: readonly string[];
}

export const SEARCH_OPTIONS: Names<SearchOptions> = {
  k: true,
  mode: true,
  filter: true,
  vector: true,
  minScore: true,
  prefix: true,
  offset: true,
  groupBy: true,
  languages: true,
};

/** A query with what its mode needs. */
export interface CheckedQuery {
  readonly mode: Mode;
  /** The terms of its text, and what a document must have; null where only a vector was given. */
  readonly asked: Query | null;
  /** Float32 (dimension,) of length 1; empty for a lexical search, and for a hybrid one that the encoder does not read. */
  readonly vector: Float32Array;
  readonly k: number;
  readonly offset: number;
  /** -Infinity for any. */
  readonly minScore: number;
}

/**
 * The arguments of `Index.search` as a query; a text is encoded where its mode needs it. Undefined: nothing is asked yet.
 * @throws InvalidInputError as `Index.search` says
 */
export async function checkQuery(
  query: unknown,
  options: SearchOptions,
  dimension: number,
  encoder: QueryEncoder | undefined,
  analyzer: Analyzer,
): Promise<CheckedQuery | undefined> {
  const text = typeof query === "string" ? checkText(query, "the query") : "";
  let vector: unknown = options.vector;
  const isTyped = options.prefix === true && typeof query === "string" && vector === undefined;
  if (typeof query === "string") {
    if (asksNothing(text) && !isTyped) throw new InvalidInputError("the query is blank or signs alone; expected a word");
  } else if (vector === undefined) {
    vector = query;
  } else {
    throw new InvalidInputError("vector goes with a text query; the query is a vector already");
  }
  const mode = options.mode ?? (text ? "hybrid" : "dense");
  if (!MODES.includes(mode)) {
    const expected = MODES.map(repr).join(", ");
    throw new InvalidInputError(`the mode is ${show(mode)}, expected one of (${expected})`);
  }
  const k = checkCount(options.k ?? 10, "k");
  const { offset = 0, minScore } = options;
  if (!Number.isSafeInteger(offset) || offset < 0) {
    throw new InvalidInputError(`offset is ${show(offset)}, expected a whole number from 0`);
  }
  if (minScore !== undefined && minScore !== null && !Number.isFinite(minScore)) {
    throw new InvalidInputError(`minScore is ${show(minScore)}, expected a number`);
  }
  const asked = text ? await analyzer.query(text, options.prefix) : null;
  if (isTyped && (asksNothing(text) || !asked?.plain)) return undefined;
  const checked = { mode, asked, k, offset, minScore: minScore ?? -Infinity };
  if (mode === "lexical" && text) return { ...checked, vector: new Float32Array(0) };
  if (mode !== "dense" && !text) {
    throw new InvalidInputError(`${mode} search needs the query's text, found a vector only`);
  }
  if (asked && vector === undefined) {
    if (!asked.plain) {
      throw new InvalidInputError(
        `the query ${repr(shortened(text))} only says what must not be there; expected a word to look for`,
      );
    }
    if (!encoder) {
      throw new InvalidInputError(
        "a search by meaning for a text needs an encoder: openIndex(source, { encoder: await " +
          'load(bundle) }). Without one, pass a vector or use mode "lexical"',
      );
    }
    const isRead = mode !== "hybrid" || (await encoder.reads?.(asked.plain)) !== false;
    if (!isRead) return { ...checked, vector: new Float32Array(0) };
    vector = await encoder.encodeQuery(asked.plain);
  }
  return { ...checked, vector: unitVector(vector, dimension, "the query's vector") };
}
