/**
 * Shamir's secret sharing modulo the prime 2^256 - 189: any `threshold` shares give the secret; a
 * device's half of Python's `client/private/sharing.py` (the server restores).
 *
 * BigInt does not take constant time: other code on the same device might measure it.
 */

import { InvalidInputError } from "../errors.js";

export const MODULUS = 2n ** 256n - 189n;
export const SHARE_BYTES = 32;

/**
 * `count` shares of `secret` (32 bytes, a little-endian number), the first for x = 1; `coefficients`
 * of x, x^2, ...: `threshold` - 1 uniform numbers below MODULUS.
 *
 * Throws InvalidInputError: the numbers do not go together, or the secret is above the modulus (one
 * of 2^248 uniform ones is).
 */
export function split(
  secret: Uint8Array,
  threshold: number,
  coefficients: readonly bigint[],
  count: number,
): Uint8Array[] {
  if (!(threshold >= 1 && threshold <= count) || coefficients.length !== threshold - 1) {
    throw new InvalidInputError(
      `found ${coefficients.length} coefficients, threshold ${threshold} and ${count} shares; ` +
        "expected one coefficient less than the threshold, and no fewer shares than it",
    );
  }
  const constant = secret.length === SHARE_BYTES ? littleEndian(secret) : MODULUS;
  if (constant >= MODULUS) {
    throw new InvalidInputError(
      `found ${secret.length} bytes that are no element of the field, expected ${SHARE_BYTES} with a ` +
        "value below 2**256 - 189",
    );
  }
  if (!coefficients.every((coefficient) => coefficient >= 0n && coefficient < MODULUS)) {
    throw new InvalidInputError("a coefficient is out of the field; expected 0 to 2**256 - 190");
  }
  return Array.from({ length: count }, (_, i) => {
    const x = BigInt(i + 1);
    const value = coefficients.reduceRight((sum, coefficient) => (sum * x + coefficient) % MODULUS, 0n);
    return toBytes((value * x + constant) % MODULUS);
  });
}

/** The little-endian whole number in `bytes`. */
export function littleEndian(bytes: Uint8Array): bigint {
  let value = 0n;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = bytes.length - 8; at >= 0; at -= 8) value = (value << 64n) | view.getBigUint64(at, true);
  return value;
}

function toBytes(value: bigint): Uint8Array {
  const bytes = new Uint8Array(SHARE_BYTES);
  const view = new DataView(bytes.buffer);
  for (let at = 0; at < SHARE_BYTES; at += 8) view.setBigUint64(at, BigInt.asUintN(64, value >> BigInt(8 * at)), true);
  return bytes;
}
