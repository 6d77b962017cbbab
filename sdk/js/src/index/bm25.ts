/**
 * BM25 over several parts of one index, in the order and precision of Python's `postings.py`.
 *
 *     score(q, d) = sum over terms t of q:  n(t, q) * idf(t) * tf * (k1 + 1) / (tf + norm(d))
 *     idf(t) = log(1 + (N - df + .5) / (df + .5)),   norm(d) = k1 * (1 - b + b * |d| / mean)
 *
 * N, df and the mean length count deleted documents, as in Python.
 */
import { pairwiseSum } from "./vectors/numbers.js";
import type { Part } from "./part.js";

const K1 = 1.2;
const B = 0.75;

/**
 * BM25 of every row for a query, float32 (n,); 0 where a row has none of the terms.
 * @param terms how often each term is in the query
 * @param norms float32 (n,), see {@link lengthNorms}
 */
export function bm25(
  parts: readonly Part[],
  terms: ReadonlyMap<string, number>,
  norms: Float32Array,
): Float32Array {
  const scores = new Float32Array(norms.length);
  if (!norms.length) return scores;
  for (const [term, inQuery] of terms) {
    const found = parts.map((part) => part.postings(term));
    const df = found.reduce((sum, { rows }) => sum + rows.length, 0);
    const idf = Math.log1p((norms.length - df + 0.5) / (df + 0.5));
    const weight = Math.fround(inQuery * idf * (K1 + 1));
    let first = 0;
    for (const [i, { rows, counts }] of found.entries()) {
      for (let n = 0; n < rows.length; n++) {
        const row = first + rows[n]!;
        const count = counts[n]!;
        const share = Math.fround(Math.fround(weight * count) / Math.fround(count + norms[row]!));
        scores[row] = scores[row]! + share;
      }
      first += parts[i]!.count;
    }
  }
  return scores;
}

/** norm(d) of every row, float32 (n,), for the lengths of all parts, float32 (n,). */
export function lengthNorms(lengths: Float32Array): Float32Array {
  const total = lengths.reduce((sum, length) => sum + length, 0);
  // Up to there every float32 sum of whole numbers is exact, in any order.
  const sum = total <= 2 ** 24 ? total : pairwiseSum(lengths, Math.fround);
  const mean = Math.max(Math.fround(sum / lengths.length), 1); // NaN, of none, is used nowhere
  const [k1, constant, slope] = [Math.fround(K1), Math.fround(1 - B), Math.fround(B / mean)];
  return lengths.map((length) => k1 * Math.fround(constant + Math.fround(slope * length)));
}
