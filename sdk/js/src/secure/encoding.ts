/**
 * Changes as whole numbers of steps: what can be masked, summed modulo 2^w and still be exact;
 * Python's `client/private/encoding.py`, to the last bit.
 *
 * A change is clipped in its norm, then in each value, and rounded up or down at random, so that its
 * mean over devices has no bias.
 */

import { InvalidInputError } from "../errors.js";
import { pairwise } from "../training/transforms.js";
import type { Keystream } from "./chacha20.js";

const FINEST = 40; // of exponents
const LARGEST = 2 ** 40; // of what is measured in values: their squares stay finite

/** Residues modulo 2^16 or 2^32. */
export type Codes = Uint16Array | Uint32Array;

/** How the changes of a round become codes. */
export interface Encoding {
  /** Values of a change. */
  readonly size: number;
  /** Of a code. */
  readonly bits: 16 | 32;
  /** The step is 2^-exponent. */
  readonly exponent: number;
  /** No value may be further from 0. */
  readonly range: number;
  /** The norm of a change, at most. */
  readonly clip: number;
}

/** `encoding`, where it can be. Throws InvalidInputError. */
export function checkEncoding(encoding: Encoding): Encoding {
  const { size, bits, exponent, range, clip } = encoding;
  const isMeasure = (value: number): boolean => value > 0 && value <= LARGEST;
  const isRight =
    Number.isSafeInteger(size) &&
    size >= 1 &&
    (bits === 16 || bits === 32) &&
    Number.isInteger(exponent) &&
    Math.abs(exponent) <= FINEST &&
    isMeasure(range) &&
    isMeasure(clip);
  if (!isRight || range / stepOf(encoding) >= 2 ** (bits - 1)) {
    throw new InvalidInputError(
      `found the encoding ${JSON.stringify(encoding)}, expected codes of 16 or 32 bits that hold its range`,
    );
  }
  return encoding;
}

/** The size of a step. */
export function stepOf({ exponent }: Encoding): number {
  return 2 ** -exponent;
}

/**
 * The most that the norm of a change can be once it is rounded to steps, in its own unit.
 *
 * Kairouz, Liu and Steinke 2021, section 3: randomised rounding, repeated until the norm is below
 * this bound, which at least 39 of 100 draws are.
 */
export function largestNorm(encoding: Encoding): number {
  const { size, clip } = encoding;
  const step = stepOf(encoding);
  const root = Math.sqrt(size);
  const whole = clip + step * root;
  const likely = clip * clip + (step * step * size) / 4 + step * (clip + (step * root) / 2);
  return Math.sqrt(Math.min(whole * whole, likely));
}

/**
 * The codes of a change: clipped, rounded by `coins`, with `noise` in steps, modulo 2^w. Coins are
 * drawn again until the norm of the rounded change is at most `largestNorm`.
 *
 * Throws InvalidInputError: another size, or values that are not finite.
 */
export function encode(
  values: Float32Array,
  encoding: Encoding,
  coins: Keystream,
  noise: Int32Array | null = null,
): Codes {
  const { size, bits, clip, range } = encoding;
  if (values.length !== size || !values.every(Number.isFinite)) {
    throw new InvalidInputError(`found a change of ${values.length} values, expected ${size} finite ones`);
  }
  const exact = Float64Array.from(values);
  const norm = Math.sqrt(pairwise(exact.map((value) => value * value)));
  const factor = norm > clip ? clip / norm : 1;
  const step = stepOf(encoding);
  const scaled = exact.map((value) => Math.min(range, Math.max(-range, value * factor)) / step);
  const bound = largestNorm(encoding) / step;
  for (;;) {
    const tosses = coins.words(size, 32);
    const codes = scaled.map((value, i) => Math.floor(value + (tosses[i] as number) * 2 ** -32));
    const square = codes.reduce((sum, code) => sum + code * code, 0); // of whole numbers: exact
    if (square > bound * bound) continue;
    const noisy = noise === null ? codes : codes.map((code, i) => code + (noise[i] as number));
    return bits === 16 ? Uint16Array.from(noisy) : Uint32Array.from(noisy);
  }
}
