/**
 * Literals such as "[SEP]" that a tokenizer maps to an id wherever they stand in a text.
 *
 * The rules are those of `tokenizers`' added vocabulary: the leftmost longest literal wins, and each
 * token says whether it must stand alone and whether it swallows the white space beside it.
 */

import { fromEnd } from "../platform/lists.js";
import { isWellFormed } from "../utf8.js";
import { WORD_CHARACTERS } from "./unicode_tables.js";

const SPACES = /[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*/y;
/** A literal and its id. */
export interface AddedToken {
  readonly content: string;
  readonly id: number;
  /** Matches only where no word character stands beside it. */
  readonly singleWord?: boolean;
  /** Takes the white space before it too. */
  readonly lstrip?: boolean;
  /** Takes the white space after it too. */
  readonly rstrip?: boolean;
  /** Is looked for in the normalised text instead of the raw one. */
  readonly normalized?: boolean;
}

/** Finds added tokens in a text. */
export class AddedTokens {
  readonly #tokens = new Map<string, AddedToken>();
  readonly #pattern: RegExp | null;

  constructor(tokens: Iterable<AddedToken>) {
    for (const token of tokens) {
      const { content } = token;
      if (content && !this.#tokens.has(content)) this.#tokens.set(content, token);
    }
    // No text holds half of a character, so no literal with one is ever found.
    const literals = [...this.#tokens.keys()].filter(isWellFormed);
    literals.sort((left, right) => right.length - left.length); // longest first
    this.#pattern = literals.length > 0 ? new RegExp(literals.map(escaped).join("|"), "g") : null;
  }

  /** The ids of the literals in `text` and the stretches of text between them, in order. */
  split(text: string): (string | number)[] {
    const parts: (string | number)[] = [];
    let done = 0;
    for (const match of this.#pattern === null ? [] : text.matchAll(this.#pattern)) {
      const token = this.#tokens.get(match[0]) as AddedToken;
      let start = match.index;
      let stop = start + match[0].length;
      if (token.singleWord && !standsAlone(text, start, stop)) continue;
      if (token.lstrip) start = Math.max(startOfSpace(text, start), done);
      if (token.rstrip) stop = endOfSpace(text, stop);
      if (done < start) parts.push(text.slice(done, start));
      parts.push(token.id);
      done = stop;
    }
    if (done < text.length) parts.push(text.slice(done));
    return parts;
  }
}

/** Unicode's `\\w` (UTS 18, annex C), as the `tokenizers` library sees it. */
export function isWordCharacter(character: string): boolean {
  return WORD_CHARACTERS.has(character.codePointAt(0) ?? 0);
}

function escaped(literal: string): string {
  return literal.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}

function endOfSpace(text: string, begin: number): number {
  SPACES.lastIndex = begin;
  SPACES.test(text);
  return SPACES.lastIndex;
}

function startOfSpace(text: string, end: number): number {
  while (end > 0 && endOfSpace(text, end - 1) >= end) end--;
  return end;
}

function standsAlone(text: string, start: number, stop: number): boolean {
  const before = start > 0 ? fromEnd(Array.from(text.slice(Math.max(0, start - 2), start))) : undefined;
  const after = stop < text.length ? String.fromCodePoint(text.codePointAt(stop) ?? 0) : undefined;
  return !(before && isWordCharacter(before)) && !(after && isWordCharacter(after));
}
