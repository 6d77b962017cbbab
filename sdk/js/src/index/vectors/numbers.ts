/** Arithmetic as numpy does it, so that the same input gives the same bits. */

const BLOCK = 128; // numbers that numpy sums in one go, in eight columns
const COLUMNS = 8;

/**
 * The sum of `values`, in numpy's order (pairwise).
 * @param rounded what every sum is rounded to: `Math.fround` for float32
 */
export function pairwiseSum(
  values: ArrayLike<number>,
  rounded: (sum: number) => number = Number,
  from = 0,
  count = values.length,
): number {
  const to = from + count;
  if (count > BLOCK) {
    const half = Math.floor(count / 2 / COLUMNS) * COLUMNS;
    const left = pairwiseSum(values, rounded, from, half);
    return rounded(left + pairwiseSum(values, rounded, from + half, count - half));
  }
  let sum = 0;
  let at = from;
  if (count >= COLUMNS) {
    const sums = new Array<number>(COLUMNS).fill(0);
    for (; at + COLUMNS <= to; at += COLUMNS) {
      for (let i = 0; i < COLUMNS; i++) sums[i] = rounded(sums[i]! + values[at + i]!);
    }
    const [a, b, c, d, e, f, g, h] = sums as [
      number, number, number, number, number, number, number, number,
    ];
    const left = rounded(rounded(a + b) + rounded(c + d));
    sum = rounded(left + rounded(rounded(e + f) + rounded(g + h)));
  }
  for (; at < to; at++) sum = rounded(sum + values[at]!);
  return sum;
}

/** `value` rounded to a whole number, halves to the even one. */
export function roundHalfEven(value: number): number {
  const below = Math.floor(value);
  const over = value - below;
  if (over !== 0.5) return over < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}
