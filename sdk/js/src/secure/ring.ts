/**
 * Who masks with whom: places on a ring in random order, each joined to the nearest on both sides
 * (Bell et al., CCS 2020, section 3.2); Python's `client/private/masks.py`.
 */

import { hexadecimal } from "../platform/hashing.js";
import { digestOf } from "./keys.js";

const DRAWS = 2n ** 64n;
let last: { readonly key: string; readonly order: readonly number[] } | null = null;

/** The neighbours of `position`, in ascending order; `degree` is even, or `size` - 1. */
export function neighboursOf(seed: Uint8Array, size: number, degree: number, position: number): number[] {
  if (degree >= size - 1) {
    return Array.from({ length: size }, (_, other) => other).filter((other) => other !== position);
  }
  const order = orderOf(seed, size);
  const place = order.indexOf(position);
  const near: number[] = [];
  for (let step = 1; step <= degree / 2; step++) {
    near.push(order[(place + step) % size] as number, order[(place - step + size) % size] as number);
  }
  return near.sort((a, b) => a - b);
}

/** 0 .. size - 1 by Fisher and Yates' shuffle; kept for the stages that follow. */
function orderOf(seed: Uint8Array, size: number): readonly number[] {
  const key = `${hexadecimal(seed)} ${size}`;
  if (last?.key === key) return last.order;
  const order = Array.from({ length: size }, (_, position) => position);
  const draws = uniform(seed);
  for (let end = size - 1; end > 0; end--) {
    const choices = BigInt(end + 1);
    const fair = DRAWS - (DRAWS % choices); // above it, some remainders would be likelier
    let draw = draws.next().value;
    while (draw >= fair) draw = draws.next().value;
    const chosen = Number(draw % choices);
    [order[end], order[chosen]] = [order[chosen] as number, order[end] as number];
  }
  last = { key, order };
  return order;
}

/** Uniform numbers of 64 bits: each SHA-256 of the seed and a counter gives four. */
function* uniform(seed: Uint8Array): Generator<bigint, never> {
  for (let counter = 0n; ; counter++) {
    const number = new Uint8Array(8);
    new DataView(number.buffer).setBigUint64(0, counter);
    const block = digestOf(seed, number);
    const view = new DataView(block.buffer, block.byteOffset);
    for (let at = 0; at < block.length; at += 8) yield view.getBigUint64(at);
  }
}
