/** float16 in memory as its 16 bits, which older JavaScript has no numbers for. */

/** The values of `halves` (bits of float16), exactly. */
export function widen(halves: Uint16Array): Float32Array {
  const bits = new Uint32Array(halves.length);
  for (const [i, half] of halves.entries()) bits[i] = widenedBits(half);
  return new Float32Array(bits.buffer);
}

/** The bits of the float32 equal to the float16 with these bits. */
function widenedBits(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) return (sign | 0x7f800000 | (fraction << 13)) >>> 0; // infinity, NaN
  if (exponent !== 0) return (sign | ((exponent + 112) << 23) | (fraction << 13)) >>> 0;
  if (fraction === 0) return sign >>> 0;
  const shift = Math.clz32(fraction) - 21; // a subnormal: its first bit becomes the implicit one
  return (sign | ((113 - shift) << 23) | ((fraction << (13 + shift)) & 0x7fffff)) >>> 0;
}

/** The bits of the float16 nearest to each value, ties to even, as numpy rounds. */
export function narrow(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(Float32Array.from(values).buffer);
  return Uint16Array.from(bits, narrowedBits);
}

function narrowedBits(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00; // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00; // beyond the largest, or rounded up to that
  if (magnitude >= 0x38800000) return sign | rounded(magnitude - 0x38000000, 13);
  if (magnitude < 0x33000000) return sign; // below half of the smallest
  // A subnormal: the implicit bit becomes one of the fraction.
  const fraction = (magnitude & 0x7fffff) | 0x800000;
  return sign | rounded(fraction, 126 - (magnitude >>> 23));
}

/** `value` without its last `shift` bits, rounded to the nearest, ties to even. */
function rounded(value: number, shift: number): number {
  const kept = value >>> shift;
  const rest = value & (2 ** shift - 1);
  const half = 2 ** (shift - 1);
  return kept + (rest > half || (rest === half && kept % 2 === 1) ? 1 : 0);
}
