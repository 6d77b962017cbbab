/**
 * BM25 over several parts of one index, in the order and precision of Python's `postings.py`.
 *
 *     score(q, d) = sum over terms t of q:  n(t, q) * idf(t) * tf * (k1 + 1) / (tf + norm(d))
 *     idf(t) = log(1 + (N - df + .5) / (df + .5)),   norm(d) = k1 * (1 - b + b * |d| / mean)
 *
 * N, df and the mean length count deleted documents until the index is compacted, as in Python.
 */
import { pairwiseSum } from "./vectors/numbers.js";
import type { Query } from "../words/query.js";
import type { Expansion } from "../words/vocabulary.js";
import type { Part, Postings } from "./part.js";

const K1 = 1.2;
const B = 0.75;

/** BM25 for one query. */
export interface Lexical {
  /** Float32 (n,), 0 where a row has none of the terms. */
  readonly scores: Float32Array;
  /**
   * What no document can reach, the sum over the terms of weight * idf * (k1 + 1); a term that no document
   * has counts with the idf of none.
   */
  readonly most: number;
  /** That sum over the terms that a document has. */
  readonly present: number;
  /** That sum over the terms that a document of each language has, by language; empty where none was asked for. */
  readonly own: ReadonlyMap<number, number>;
}

/**
 * BM25 of every row for a query.
 * @param expansion the weight of each term of the query, and of what stands for one. `most` and `present` have the
 * largest of its compounds in the place of a word that no document has
 * @param asked the query: `most` and `present` are of its terms, and not of compounds that no document has. A word
 * of its phrases counts once in a document, which has them all
 * @param norms float32 (n,), see {@link lengthNorms}
 * @param gone 1 where a row was compacted away; undefined for none
 * @param languageOf the number of a row's language; undefined where `own` is not asked for
 */
export function bm25(
  parts: readonly Part[],
  { weights, instead }: Expansion,
  asked: Query,
  norms: Float32Array,
  gone?: Uint8Array,
  languageOf?: (row: number) => number,
): Lexical {
  const count = norms.length - (gone ? gone.reduce((sum, one) => sum + one, 0) : 0);
  const scores = new Float32Array(norms.length);
  let [most, present] = [0, 0];
  const own = new Map<number, number>();
  if (!norms.length) return { scores, most, present, own };
  const once = new Set(asked.phrases.flat());
  const replaced = new Map([...instead.values()].map((word) => [word, 0]));
  const ownReplaced = new Map([...replaced.keys()].map((word) => [word, new Map<number, number>()]));
  const add = (language: number, value: number): void => void own.set(language, (own.get(language) ?? 0) + value);
  for (const [term, weight] of weights) {
    const found = parts.map((part) => part.postings(term));
    const df = frequency(parts, found, gone);
    const idf = Math.log1p((count - df + 0.5) / (df + 0.5));
    const highest = Math.fround(weight * idf * (K1 + 1));
    const word = instead.get(term);
    const having = languageOf ? languagesOf(parts, found, languageOf, gone) : [];
    if (word !== undefined) {
      replaced.set(word, Math.max(replaced.get(word)!, highest));
      const most = ownReplaced.get(word)!;
      for (const language of having) most.set(language, Math.max(most.get(language) ?? 0, highest));
    } else if (asked.terms.has(term) && !replaced.has(term) && (df > 0 || !asked.beside.has(term))) {
      most += highest;
      if (df > 0) present += highest;
      for (const language of having) add(language, highest);
    }
    let first = 0;
    for (const [i, { rows, counts }] of found.entries()) {
      for (let n = 0; n < rows.length; n++) {
        const row = first + rows[n]!;
        if (gone?.[row]) continue;
        const tf = once.has(term) ? 1 : counts[n]!;
        const share = Math.fround(Math.fround(highest * tf) / Math.fround(tf + norms[row]!));
        scores[row] = scores[row]! + share;
      }
      first += parts[i]!.count;
    }
  }
  for (const value of replaced.values()) [most, present] = [most + value, present + value];
  for (const values of ownReplaced.values()) for (const [language, value] of values) add(language, value);
  return { scores, most, present, own };
}

/** The languages of the rows that have a term. */
function languagesOf(
  parts: readonly Part[],
  found: readonly Postings[],
  languageOf: (row: number) => number,
  gone?: Uint8Array,
): ReadonlySet<number> {
  const languages = new Set<number>();
  let first = 0;
  for (const [i, { rows }] of found.entries()) {
    for (const row of rows) if (!gone?.[first + row]) languages.add(languageOf(first + row));
    first += parts[i]!.count;
  }
  return languages;
}

/** How many rows have a term. */
export function frequency(parts: readonly Part[], found: readonly Postings[], gone?: Uint8Array): number {
  let [sum, first] = [0, 0];
  for (const [i, { rows }] of found.entries()) {
    sum += gone ? rows.reduce((kept, row) => kept + (gone[first + row] ? 0 : 1), 0) : rows.length;
    first += parts[i]!.count;
  }
  return sum;
}

/**
 * norm(d) of every row, float32 (n,), for the lengths of all parts, float32 (n,).
 * @param counted the lengths whose mean counts
 */
export function lengthNorms(lengths: Float32Array, counted = lengths): Float32Array {
  const total = counted.reduce((sum, length) => sum + length, 0);
  // Up to there every float32 sum of whole numbers is exact, in any order.
  const sum = total <= 2 ** 24 ? total : pairwiseSum(counted, Math.fround);
  const mean = Math.max(Math.fround(sum / counted.length), 1); // NaN, of none, is used nowhere
  const [k1, constant, slope] = [Math.fround(K1), Math.fround(1 - B), Math.fround(B / mean)];
  return lengths.map((length) => k1 * Math.fround(constant + Math.fround(slope * length)));
}
