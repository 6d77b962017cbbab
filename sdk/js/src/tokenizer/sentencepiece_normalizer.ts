/**
 * Sentencepiece's text normalisation: a table of replacements compiled into a double array, and what
 * becomes of white space. A port of `normalizer.cc` (Kudo and Richardson, "SentencePiece", 2018).
 */

import { CorruptArtifactError } from "../errors.js";
import { decodeLoosely, encodeUtf8 } from "../utf8.js";
import type { NormalizerSpec } from "./sentencepiece_file.js";

const SPACE = 0x20;
const ESCAPED_SPACE = "\u2581";

/** A stretch at the beginning of a text: how many bytes of it, and what replaces them. */
interface Prefix {
  readonly length: number;
  readonly text: string;
}

export class SentencePieceNormalizer {
  readonly #spec: NormalizerSpec;
  readonly #charsmap: Charsmap | null;
  readonly #userDefined: PrefixSet;

  /** `userDefined`: pieces that are left as they are wherever they stand. */
  constructor(spec: NormalizerSpec, userDefined: PrefixSet) {
    this.#spec = spec;
    this.#charsmap = spec.charsmap.length > 0 ? new Charsmap(spec.charsmap) : null;
    this.#userDefined = userDefined;
  }

  /** The text as the model's pieces spell it. */
  normalize(text: string): string {
    const spec = this.#spec;
    const space = spec.escapeWhitespaces ? ESCAPED_SPACE : " ";
    const input = encodeUtf8(text);
    let at = 0;
    if (spec.removeExtraWhitespaces) {
      while (at < input.length) {
        const prefix = this.#prefix(input, at);
        if (prefix.text !== " ") break;
        at += prefix.length;
      }
    }
    if (at >= input.length) return "";
    let normal = !spec.whitespaceAsSuffix && spec.addDummyPrefix ? space : "";
    let afterSpace = spec.removeExtraWhitespaces;
    while (at < input.length) {
      const prefix = this.#prefix(input, at);
      at += prefix.length;
      const found = afterSpace ? prefix.text.replace(/^ +/, "") : prefix.text;
      if (found !== "") {
        normal += spec.escapeWhitespaces ? found.replaceAll(" ", ESCAPED_SPACE) : found;
        afterSpace = found.endsWith(" ");
      }
      if (!spec.removeExtraWhitespaces) afterSpace = false;
    }
    if (spec.removeExtraWhitespaces) {
      while (normal.endsWith(space)) normal = normal.slice(0, -1);
    }
    return spec.whitespaceAsSuffix && spec.addDummyPrefix ? normal + space : normal;
  }

  #prefix(input: Uint8Array, at: number): Prefix {
    const kept = this.#userDefined.longest(input, at);
    if (kept > 0) return { length: kept, text: decodeLoosely(input.subarray(at, at + kept)) };
    const replaced = this.#charsmap?.longest(input, at) ?? null;
    if (replaced !== null) return replaced;
    const first = input[at] as number;
    if (first < 0x80) return { length: 1, text: first === SPACE ? " " : String.fromCharCode(first) };
    const length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4; // the input is valid UTF-8
    return { length, text: decodeLoosely(input.subarray(at, at + length)) };
  }
}

/** Literals, of which the longest that a text begins with is asked for. */
export class PrefixSet {
  readonly #byFirst = new Map<number, Uint8Array[]>();

  constructor(literals: readonly string[]) {
    for (const bytes of literals.map(encodeUtf8)) {
      const first = bytes[0] as number;
      this.#byFirst.set(first, [...(this.#byFirst.get(first) ?? []), bytes]);
    }
    for (const same of this.#byFirst.values()) same.sort((a, b) => b.length - a.length);
  }

  /** The bytes of the longest literal at `at`; 0 where there is none. */
  longest(input: Uint8Array, at: number): number {
    for (const literal of this.#byFirst.get(input[at] as number) ?? []) {
      if (literal.every((byte, i) => input[at + i] === byte)) return literal.length;
    }
    return 0;
  }
}

/** The compiled table: a double array (Darts) over bytes, and the replacements it points to. */
class Charsmap {
  readonly #units: Uint32Array;
  readonly #texts: Uint8Array;

  constructor(blob: Uint8Array) {
    const size = blob.length >= 4 ? new DataView(blob.buffer, blob.byteOffset).getUint32(0, true) : 0;
    if (blob.length <= 4 || size >= blob.length || size % 4 !== 0) {
      throw new CorruptArtifactError("tokenizer.model: its normalisation rule is broken");
    }
    this.#units = new Uint32Array(size / 4);
    const view = new DataView(blob.buffer, blob.byteOffset + 4, size);
    for (let i = 0; i < this.#units.length; i++) this.#units[i] = view.getUint32(4 * i, true);
    this.#texts = blob.subarray(4 + size);
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
    return this.#units[index] ?? 0x80000000; // outside: a unit no byte matches
  }

  #text(begin: number): string {
    const end = this.#texts.indexOf(0, begin);
    return decodeLoosely(this.#texts.subarray(begin, end < 0 ? this.#texts.length : end));
  }
}

function offsetOf(unit: number): number {
  return ((unit >>> 10) << ((unit & 0x200) >>> 6)) >>> 0;
}
