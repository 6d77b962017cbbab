/**
 * Sentencepiece's text normalisation: a table of replacements compiled into a double array, and what
 * becomes of white space. A port of `normalizer.cc` (Kudo and Richardson, "SentencePiece", 2018).
 */

import { decodeLoosely, encodeUtf8 } from "../utf8.js";
import { Charsmap, type Prefix } from "./sentencepiece_charsmap.js";
import type { NormalizerSpec } from "./sentencepiece_file.js";

const SPACE = 0x20;
const ESCAPED_SPACE = "\u2581";

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

type Trie = Map<number, { next: Trie; ends: boolean }>;

/** Literals, of which the longest that a text begins with is asked for. */
export class PrefixSet {
  readonly #root: Trie = new Map();

  constructor(literals: readonly string[]) {
    for (const literal of literals) {
      let [trie, last] = [this.#root, { next: this.#root, ends: false }];
      for (const byte of encodeUtf8(literal)) {
        last = trie.get(byte) ?? { next: new Map(), ends: false };
        trie.set(byte, last);
        trie = last.next;
      }
      last.ends = true;
    }
  }

  /** The bytes of the longest literal at `at`; 0 where there is none. */
  longest(input: Uint8Array, at: number): number {
    let length = 0;
    let node = this.#root.get(input[at] as number);
    for (let end = at + 1; node !== undefined; node = node.next.get(input[end++] as number)) {
      if (node.ends) length = end - at;
    }
    return length;
  }
}
