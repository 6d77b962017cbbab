/**
 * BM25 over several parts of one index, in the order and precision of Python's `postings.py`.
 *
 *     score(q, d) = sum over terms t of q:  n(t, q) * idf(t) * tf * (k1 + 1) / (tf + norm(d))
 *     idf(t) = log(1 + (N - df + .5) / (df + .5)),   norm(d) = k1 * (1 - b + b * |d| / mean)
 *
 * N, df and the mean length count deleted documents until the index is compacted, as in Python.
 */
import { pairwiseSum } from "./vectors/numbers.js";
import { ownPart } from "./vectors/vectors.js";
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

/** What a query weighs in an index, and how much of it is there; a {@link Lexical} without its scores. */
interface Weighed extends Omit<Lexical, "scores"> {
  /** Of each term the most that it adds to a score, and its postings in each part. */
  readonly terms: readonly { readonly term: string; readonly highest: number; readonly found: readonly Postings[] }[];
}

/**
 * @param count rows, those aside that were compacted away
 * @param expansion the weight of each term of the query, and of what stands for one. `most` and `present` have the
 * largest of its compounds in the place of a word that no document has
 * @param asked the query: `most` and `present` are of its terms, and not of compounds that no document has
 * @param gone 1 where a row was compacted away; undefined for none
 * @param languageOf the number of a row's language; undefined where `own` is not asked for
 */
export function weighed(
  parts: readonly Part[],
  count: number,
  { weights, instead }: Expansion,
  asked: Query,
  gone?: Uint8Array,
  languageOf?: (row: number) => number,
): Weighed {
  let [most, present] = [0, 0];
  const own = new Map<number, number>();
  const terms: Weighed["terms"][number][] = [];
  if (!count) return { terms, most, present, own };
  const replaced = new Map([...instead.values()].map((word) => [word, 0]));
  const ownReplaced = new Map([...replaced.keys()].map((word) => [word, new Map<number, number>()]));
  const add = (language: number, value: number): void => void own.set(language, (own.get(language) ?? 0) + value);
  for (const [term, weight] of weights) {
    const found = parts.map((part) => part.postings(term));
    const df = frequency(parts, found, gone);
    const idf = Math.log1p((count - df + 0.5) / (df + 0.5));
    const highest = Math.fround(weight * idf * (K1 + 1));
    terms.push({ term, highest, found });
    const word = instead.get(term);
    const having = languageOf ? languagesOf(parts, found, languageOf, gone).keys() : [];
    if (word !== undefined) {
      replaced.set(word, Math.max(replaced.get(word)!, highest));
      const most = ownReplaced.get(word)!;
      for (const language of having) most.set(language, Math.max(most.get(language) ?? 0, highest));
    } else if (asked.terms.has(term) && !replaced.has(term) && (df > 0 || !asked.beside.has(term))) {
      most += highest;
      if (df > 0) present += highest;
      for (const language of having) add(language, highest);
    }
  }
  for (const value of replaced.values()) [most, present] = [most + value, present + value];
  for (const values of ownReplaced.values()) for (const [language, value] of values) add(language, value);
  return { terms, most, present, own };
}

/**
 * BM25 of every row for a query. A word of its phrases counts once in a document, which has them all.
 * @param norms float32 (n,), see {@link lengthNorms}; the other parameters are those of {@link weighed}
 */
export function bm25(
  parts: readonly Part[],
  expansion: Expansion,
  asked: Query,
  norms: Float32Array,
  gone?: Uint8Array,
  languageOf?: (row: number) => number,
): Lexical {
  const { terms, most, present, own } = weighed(parts, countOf(norms.length, gone), expansion, asked, gone, languageOf);
  const scores = new Float32Array(norms.length);
  const once = new Set(asked.phrases.flat());
  for (const { term, highest, found } of terms) {
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
  return { scores, most, present, own };
}

/** How many of so many rows were not compacted away. */
export function countOf(rows: number, gone?: Uint8Array): number {
  return rows - (gone ? gone.reduce((sum, one) => sum + one, 0) : 0);
}

/**
 * The mean share of an index's rows that have a term. In an index of several languages that of the language in
 * which it is largest, as far as its rows are enough to say so.
 * @param terms one at least
 * @param rows how many are in each language, of which there are two or none
 */
export function widestShare(
  parts: readonly Part[],
  count: number,
  terms: readonly string[],
  rows: ReadonlyMap<number, number>,
  gone?: Uint8Array,
  languageOf?: (row: number) => number,
): number {
  let whole = 0;
  const own = new Map(Array.from(rows.keys(), (language) => [language, 0]));
  for (const term of terms) {
    const found = parts.map((part) => part.postings(term));
    whole += frequency(parts, found, gone) / count;
    for (const [language, having] of languageOf ? languagesOf(parts, found, languageOf, gone) : []) {
      const all = rows.get(language);
      if (all) own.set(language, own.get(language)! + (having / all) * ownPart(all));
    }
  }
  return Math.max(whole, ...own.values()) / terms.length;
}

/** How many rows of each language have a term. */
function languagesOf(
  parts: readonly Part[],
  found: readonly Postings[],
  languageOf: (row: number) => number,
  gone?: Uint8Array,
): ReadonlyMap<number, number> {
  const languages = new Map<number, number>();
  let first = 0;
  for (const [i, { rows }] of found.entries()) {
    for (const row of rows) {
      if (gone?.[first + row]) continue;
      const language = languageOf(first + row);
      languages.set(language, (languages.get(language) ?? 0) + 1);
    }
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
