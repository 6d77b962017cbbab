/**
 * The table by which a sentencepiece model normalises text: a double array (Darts) over bytes, and
 * the replacements that its values point to.
 *
 * Source: Darts-clone's `darts.h` and sentencepiece's `normalizer.cc`.
 */

import { decodeUtf8 } from "../utf8.js";

const BLOCK = 256; // units, of which a step of one byte reads any
const VALUE = 0x80000000; // marks a unit that holds a value, in its other bits
const MOST_BYTES = 1 << 24; // of the whole; Unicode's own is 240,000
const LONGEST_RULE = 32; // bytes; the library's table of what it matched has that many rows
const LONGEST_REPLACEMENT = 256; // bytes; Unicode's own is 33
const MOST_GROWTH = 16; // bytes for each of a rule; Unicode's own is 11

/** A stretch at the beginning of a text: how many bytes of it, and what replaces them. */
export interface Prefix {
  readonly length: number;
  readonly text: string;
}

/** A table that was checked. */
export class Charsmap {
  readonly #units: Uint32Array;
  readonly #texts: Uint8Array;

  constructor(blob: Uint8Array) {
    [this.#units, this.#texts] = partsOf(blob);
  }

  /** The longest rule that fits at `at`, and its replacement. */
  longest(input: Uint8Array, at: number): Prefix | null {
    let node = offsetOf(this.#unit(0));
    let length = 0;
    let value = 0;
    for (let i = at; i < input.length; i++) {
      const byte = input[i] as number;
      node ^= byte;
      const unit = this.#unit(node);
      if ((unit & 0x800000ff) >>> 0 !== byte) break;
      node ^= offsetOf(unit);
      if (unit & 0x100) {
        length = i + 1 - at;
        value = this.#unit(node) & 0x7fffffff;
      }
    }
    return length === 0 ? null : { length, text: this.#text(value) };
  }

  #unit(index: number): number {
    return this.#units[index] as number;
  }

  #text(begin: number): string {
    return decodeUtf8(this.#texts.subarray(begin, this.#texts.indexOf(0, begin)));
  }
}

/** Throws RangeError (or TypeError: no UTF-8) where some text could not be walked by the table. */
export function checkCharsmap(blob: Uint8Array): void {
  const [units, texts] = partsOf(blob);
  const lengths = lengthsOf(texts);
  let reached = new Uint8Array(units.length);
  const root = offsetOf(units[0] as number);
  if (root >= units.length) throw new RangeError("its normalisation leads outside of its table");
  reached[root] = 1;
  // All ways at once, a byte at a time. A unit with a label is reached from one place alone.
  for (let depth = 1; depth <= LONGEST_RULE + 1; depth++) {
    const next = new Uint8Array(units.length);
    let isEnd = true;
    for (let i = 0; i < units.length; i++) {
      const unit = units[i] as number;
      if (unit >= VALUE || !reached[i ^ (unit & 0xff)]) continue;
      const target = (i ^ offsetOf(unit)) >>> 0;
      if (target >= units.length) throw new RangeError("its normalisation leads outside of its table");
      if (unit & 0x100) {
        const length = lengths[(units[target] as number) - VALUE] ?? -1;
        if (length < 0) throw new RangeError("its normalisation leads outside of its replacements");
        if (length > MOST_GROWTH * depth) throw new RangeError(`its normalisation makes over ${MOST_GROWTH} bytes of one`);
      }
      next[target] = 1;
      isEnd = false;
    }
    if (isEnd) return;
    reached = next;
  }
  throw new RangeError(`its normalisation has a rule of over ${LONGEST_RULE} bytes`);
}

function partsOf(blob: Uint8Array): [units: Uint32Array, texts: Uint8Array] {
  const view = new DataView(blob.buffer, blob.byteOffset, blob.length);
  const size = blob.length >= 4 ? view.getUint32(0, true) : 0;
  if (size === 0 || size >= blob.length - 4 || size % (4 * BLOCK) !== 0 || blob.length > MOST_BYTES) {
    throw new RangeError("its normalisation rule is broken");
  }
  const units = new Uint32Array(size / 4);
  for (let i = 0; i < units.length; i++) units[i] = view.getUint32(4 + 4 * i, true);
  return [units, blob.subarray(4 + size)];
}

/** At each byte of `texts` the bytes of the replacement that begins there; -1: none does. */
function lengthsOf(texts: Uint8Array): Int16Array {
  decodeUtf8(texts);
  const lengths = new Int16Array(texts.length).fill(-1);
  let begin = 0;
  while (begin < texts.length) {
    const end = texts.indexOf(0, begin);
    if (end < 0 || end - begin >= LONGEST_REPLACEMENT) {
      throw new RangeError(`a replacement of its normalisation is over ${LONGEST_REPLACEMENT} bytes`);
    }
    lengths[begin] = end - begin;
    begin = end + 1;
  }
  return lengths;
}

function offsetOf(unit: number): number {
  return ((unit >>> 10) << ((unit & 0x200) >>> 6)) >>> 0;
}
