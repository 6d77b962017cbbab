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
