/** The best of many scores, and their order. */

/** Rows with their scores, best first. */
export interface Ranking {
  readonly rows: Uint32Array;
  readonly scores: Float64Array;
}

/**
 * The positions of the `k` highest of `scores`, rising; of equal scores the first ones, so that
 * what is found does not depend on how many are asked for.
 *
 * @param allowed 1 where a position may be taken; undefined for all
 * @param above only scores higher than this
 */
export function best(
  scores: Float32Array | Float64Array,
  k: number,
  allowed?: Uint8Array,
  above = -Infinity,
): Uint32Array {
  // A heap with the worst on top: the lowest score, and of equal ones the last position.
  const heap = new Uint32Array(Math.min(k, scores.length));
  let size = 0;
  let least = above;
  const worse = (left: number, right: number): boolean => {
    const difference = scores[left]! - scores[right]!;
    return difference < 0 || (difference === 0 && left > right);
  };
  const sink = (position: number): void => {
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && worse(heap[child + 1]!, heap[child]!)) child++;
      if (!worse(heap[child]!, position)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = position;
  };
  const rise = (position: number): void => {
    let at = size++;
    while (at > 0 && worse(position, heap[(at - 1) >> 1]!)) {
      heap[at] = heap[(at - 1) >> 1]!;
      at = (at - 1) >> 1;
    }
    heap[at] = position;
  };
  for (let position = 0; position < scores.length; position++) {
    if (!(scores[position]! > least) || (allowed && !allowed[position])) continue;
    if (size < heap.length) rise(position);
    else sink(position);
    if (size === heap.length) least = scores[heap[0]!]!;
  }
  return heap.subarray(0, size).sort();
}

/**
 * All that may be among the `k` highest of scores that are true to half of `slack`, rising.
 *
 * @param allowed 1 where a position may be taken; undefined for all
 */
export function candidates(scores: Float64Array, k: number, slack: number, allowed?: Uint8Array): Uint32Array {
  const first = best(scores, k, allowed);
  if (first.length < k) return first;
  const least = first.reduce((low, position) => Math.min(low, scores[position]!), Infinity) - slack;
  const near: number[] = [];
  for (let at = 0; at < scores.length; at++) if (scores[at]! > least && (!allowed || allowed[at])) near.push(at);
  return Uint32Array.from(near);
}

/** The `k` best of `rows`, which rise, best first; equal scores stay in the order of the rows. */
export function ranked(rows: Uint32Array, scores: Float32Array | Float64Array, k: number): Ranking {
  const order = Array.from(rows.keys()).sort(
    (left, right) => scores[right]! - scores[left]!,
  );
  const first = order.slice(0, k);
  return {
    rows: Uint32Array.from(first, (at) => rows[at]!),
    scores: Float64Array.from(first, (at) => scores[at]!),
  };
}
