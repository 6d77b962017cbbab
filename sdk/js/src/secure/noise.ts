/**
 * Discrete Gaussian noise for differential privacy, drawn on the device in whole steps; Python's
 * `client/private/noise.py`, to the last bit.
 *
 * Draws invert a table of the cumulative probabilities in units of 2^-128, out to 13 sigma, made with
 * whole numbers: the same on every machine.
 */

import { InvalidInputError } from "../errors.js";
import { pairwise } from "../training/transforms.js";
import type { Keystream } from "./chacha20.js";
import { type Encoding, largestNorm, stepOf } from "./encoding.js";

/** Below two steps the sum of discrete Gaussians is no longer close to one. */
export const LEAST_SIGMA = 2;
const MOST_SIGMA = 100_000; // a table of a million entries
const REACH = 13;
const BITS = 320n; // after the point of a density
const DIGITS = 110; // decimals that hold so many bits
const SPARE = 40; // more, while they are worked out
const SCALE_BITS = 128n;
const HEAD_BITS = 75n; // below the 53 bits of an entry that a double holds

/** How many devices' noise is relied on: four fifths survive, and a fifth of these may leave theirs out. */
export function countedOnOf(group: number): number {
  return Math.floor((group * 64) / 100);
}

/** The standard deviation of one device's noise, in steps. */
export function sigmaOf(noiseMultiplier: number, encoding: Encoding, countedOn: number): number {
  return (noiseMultiplier * largestNorm(encoding)) / stepOf(encoding) / Math.sqrt(countedOn);
}

/**
 * The zero-concentrated differential privacy of one round's sum (Kairouz, Liu and Steinke 2021,
 * theorem 1): that of a continuous Gaussian, and what the sum of discrete ones may differ from one.
 */
export function rhoOf(noiseMultiplier: number, encoding: Encoding, countedOn: number): number {
  const deviation = sigmaOf(noiseMultiplier, encoding, countedOn);
  const fall = -2 * (Math.PI * deviation * (Math.PI * deviation));
  const terms = Float64Array.from({ length: countedOn - 1 }, (_, i) => Math.exp((fall * (i + 1)) / (i + 2)));
  const off = 10 * pairwise(terms);
  const ratio = largestNorm(encoding) / stepOf(encoding) / (Math.sqrt(countedOn) * deviation);
  const { size } = encoding;
  const found = Math.min(Math.sqrt(ratio * ratio + (off * size) / 2), ratio + off * Math.sqrt(size));
  return (found * found) / 2;
}

/** Cumulative probabilities of a discrete Gaussian law. */
export interface Table {
  readonly sigma: number;
  /** The largest draw. */
  readonly reach: number;
  /** Of the probability of at most -reach, ... reach - 1, in units of 2^-128. */
  readonly entries: readonly bigint[];
  /** Their upper 53 bits. */
  readonly heads: Float64Array;
}

let last: Table | null = null;

/** The table for `sigma` steps; the last one is kept. Throws InvalidInputError: out of 2 to 100,000. */
export function tableOf(sigma: number): Table {
  if (last?.sigma === sigma) return last;
  if (!(sigma >= LEAST_SIGMA && sigma <= MOST_SIGMA)) {
    throw new InvalidInputError(
      `the noise of a device has a standard deviation of ${sigma} steps, expected ${LEAST_SIGMA} to ` +
        `${MOST_SIGMA}; change the noise multiplier, the group's size or the step`,
    );
  }
  const reach = Math.ceil(REACH * sigma);
  const half = densities(sigma, reach);
  const whole = 2n * half.reduce((sum, density) => sum + density, 0n) - (half[0] as bigint);
  let reached = 0n;
  const below = half.slice(1).reverse().map((density) => ((reached += density) << SCALE_BITS) / whole);
  const most = (1n << SCALE_BITS) - 1n;
  const above = below.map((entry) => (entry === 0n ? most : most + 1n - entry)).reverse();
  const entries = [...below, ...above];
  last = { sigma, reach, entries, heads: Float64Array.from(entries, (entry) => Number(entry >> HEAD_BITS)) };
  return last;
}

/** `count` independent draws; each takes 16 bytes of `stream`: the entries that they have reached. */
export function draw({ reach, entries, heads }: Table, stream: Keystream, count: number): Int32Array {
  const words = stream.words(4 * count, 32); // of each draw the upper half first, each half's lower word first
  const word = (draw: number, place: number): number => words[4 * draw + place] as number;
  return Int32Array.from({ length: count }, (_, i) => {
    const head = word(i, 1) * 2 ** 21 + (word(i, 0) >>> 11);
    let [found, end] = [0, heads.length];
    while (found < end) {
      const middle = (found + end) >> 1;
      if ((heads[middle] as number) < head) found = middle + 1;
      else end = middle;
    }
    if (heads[found] === head) {
      const uniform = [1, 0, 3, 2].reduce((value, place) => (value << 32n) | BigInt(word(i, place)), 0n);
      while (heads[found] === head && (entries[found] as bigint) <= uniform) found++;
    }
    return found - reach;
  });
}

/**
 * exp(-k^2 / (2 sigma^2)) for k from 0 to `reach`, in units of 2^-320: each is its predecessor times
 * a factor that itself shrinks by a constant one.
 */
function densities(sigma: number, reach: number): bigint[] {
  let ratio = firstRatio(sigma);
  const shrink = (ratio * ratio) >> BITS;
  const found = [1n << BITS];
  for (let k = 0; k < reach; k++) {
    found.push(((found[k] as bigint) * ratio) >> BITS);
    ratio = (ratio * shrink) >> BITS;
  }
  return found;
}

/** exp(-1 / (2 sigma^2)) in units of 2^-320, each step rounded to 110 decimals as Python's are. */
function firstRatio(sigma: number): bigint {
  // sigma = whole / 2^52: exact, for it is at least 2.
  const whole = BigInt(sigma * 2 ** 52);
  const [above, below] = [1n << 103n, whole * whole]; // 1 / (2 sigma^2)
  const places = leading(above, below) + DIGITS; // after the point, of 110 digits
  const exponent = rounded(above * 10n ** BigInt(places), below);
  const unit = 10n ** BigInt(DIGITS + SPARE);
  const shift = DIGITS + SPARE - places;
  const x = shift >= 0 ? exponent * 10n ** BigInt(shift) : exponent / 10n ** BigInt(-shift);
  let [sum, term] = [0n, unit];
  for (let n = 1n; term !== 0n; n++) {
    sum += term;
    term = (-term * x) / (unit * n);
  }
  const found = rounded(sum, 10n ** BigInt(SPARE)); // below 1 and above .88: 110 digits after the point
  const product = found << BITS;
  // The product has 97 digits before the point; what is kept of it, 13 after.
  const spare = BigInt(String(product).length - DIGITS);
  return (rounded(product, 10n ** spare) * 10n ** spare) / 10n ** BigInt(DIGITS);
}

/** How many zeros stand after the point before the first digit of above / below, which is below 1. */
function leading(above: bigint, below: bigint): number {
  let zeros = 0;
  for (let scaled = above * 10n; scaled < below; scaled *= 10n) zeros++;
  return zeros;
}

/** above / below to the nearest whole number, halves to even. */
function rounded(above: bigint, below: bigint): bigint {
  const [whole, rest] = [above / below, above % below];
  const twice = 2n * rest;
  return twice > below || (twice === below && whole % 2n === 1n) ? whole + 1n : whole;
}
