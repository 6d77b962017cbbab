/**
 * One ranking from two, dense (cosine) and lexical (BM25): each scaled to 0..1 by the smallest and
 * largest score among the candidates of both, and averaged. Python's `fusion.py`.
 */

/** Of each ranking; the scores either lacks are computed for the union. */
export const CANDIDATES = 100;
const DENSE_WEIGHT = 0.5;

/**
 * Fused scores, float32 (m,) in 0..1, of m candidates.
 * @param dense float32 (m,), cosines
 * @param lexical float32 (m,), BM25, 0 where no term is shared
 */
export function fuse(dense: Float32Array, lexical: Float32Array): Float32Array {
  const [left, right] = [unit(dense), unit(lexical)];
  return left.map((value, i) => DENSE_WEIGHT * value + (1 - DENSE_WEIGHT) * right[i]!);
}

function unit(scores: Float32Array): Float32Array {
  let [low, high] = [Infinity, -Infinity];
  for (const score of scores) {
    low = Math.min(low, score);
    high = Math.max(high, score);
  }
  if (!(high > low)) return new Float32Array(scores.length);
  const range = Math.fround(high - low);
  return scores.map((score) => Math.fround(score - low) / range);
}
