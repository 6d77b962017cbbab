/**
 * BERT's text normalisation and splitting into words, as the `tokenizers` library does them.
 *
 * Every step but one looks at a single character, so the whole chain (clean, set ideographs apart,
 * decompose, strip accents, lower-case, split) is one look-up in a table that fills itself as
 * characters are met. The exception is canonical ordering, which moves a few rare marks past each
 * other: texts that hold one of those take the steps one by one.
 */

import { mapOfRuns } from "./character_class.js";
import {
  DECOMPOSED,
  IDEOGRAPHS,
  LOWERCASED,
  MARKS,
  PUNCTUATION,
  REMOVED,
  REORDERED,
  WHITESPACE,
} from "./unicode_tables.js";

const PRINTABLE_ASCII = /^[ -~]*$/;
const ASCII_WORD = /[0-9A-Za-z]+|[^ ]/g;
const TABLE_LIMIT = 1 << 16; // characters remembered per table: every script in use

/** Which steps are taken. */
export interface BertNormalizerOptions {
  /** Drop control characters and make every white space a plain space. */
  readonly cleanText: boolean;
  /** Put spaces around ideographs, so that each is a word. */
  readonly handleChineseChars: boolean;
  /** Drop accents after canonical decomposition; null means "if lowercase". */
  readonly stripAccents: boolean | null;
  /** Lower-case, character by character. */
  readonly lowercase: boolean;
}

/** The normaliser of BERT's tokenizers (Devlin et al., 2019, as released with the models). */
export class BertNormalizer {
  readonly #options: BertNormalizerOptions;
  readonly #stripAccents: boolean;
  readonly #normalized: TranslationTable;
  readonly #spaced: TranslationTable;

  constructor(options: BertNormalizerOptions) {
    this.#options = options;
    this.#stripAccents = options.stripAccents ?? options.lowercase;
    this.#normalized = new TranslationTable((c) => this.#normalizeCharacter(c));
    this.#spaced = new TranslationTable((c) => {
      const normal = this.#normalizeCharacter(c);
      return normal === null ? null : spaceOut(normal);
    });
  }

  /** The normalised text. */
  normalize(text: string): string {
    return this.#normalized.translate(text) ?? this.#normalizeInOrder(text);
  }

  /** The words and punctuation marks of the normalised text. */
  words(text: string): string[] {
    if (PRINTABLE_ASCII.test(text)) {
      return (this.#options.lowercase ? text.toLowerCase() : text).match(ASCII_WORD) ?? [];
    }
    const spaced = this.#spaced.translate(text);
    return spaced === null ? splitWords(this.#normalizeInOrder(text)) : split(spaced);
  }

  /** null for a character whose result depends on its neighbours. */
  #normalizeCharacter(character: string): string | null {
    let text = this.#clean(character);
    if (this.#stripAccents) {
      if (REORDERED.has(pointOf(character))) return null;
      text = stripMarks(each(text, decompose));
    }
    return this.#lower(text);
  }

  #normalizeInOrder(text: string): string {
    const clean = each(text, (c) => this.#clean(c));
    return this.#lower(stripMarks(orderMarks(each(clean, decompose))));
  }

  #clean(character: string): string {
    const point = pointOf(character);
    if (this.#options.cleanText) {
      if (REMOVED.has(point)) return "";
      if (WHITESPACE.has(point)) return " ";
    }
    return this.#options.handleChineseChars && IDEOGRAPHS.has(point) ? ` ${character} ` : character;
  }

  #lower(text: string): string {
    // One by one: lower-casing a whole text makes a last sigma final, the library does not.
    return this.#options.lowercase ? each(text, lowerCharacter) : text;
  }
}

/** Split at white space and around each punctuation mark (BERT's pre-tokenizer). */
export function splitWords(text: string): string[] {
  return split(each(text, spaceOut));
}

/** What becomes of each character, computed when it is first met. */
class TranslationTable {
  readonly #convert: (character: string) => string | null;
  readonly #known = new Map<string, string | null>();

  constructor(convert: (character: string) => string | null) {
    this.#convert = convert;
  }

  /** The translated text; null where a character has no translation of its own. */
  translate(text: string): string | null {
    let translated = "";
    for (const character of text) {
      let found = this.#known.get(character);
      if (found === undefined) {
        found = this.#convert(character);
        if (this.#known.size < TABLE_LIMIT) this.#known.set(character, found);
      }
      if (found === null) return null;
      translated += found;
    }
    return translated;
  }
}

function each(text: string, convert: (character: string) => string): string {
  let converted = "";
  for (const character of text) converted += convert(character);
  return converted;
}

function pointOf(character: string): number {
  return character.codePointAt(0) as number;
}

function split(spaced: string): string[] {
  return spaced.split(" ").filter((word) => word !== "");
}

/** Plain spaces for white space and around punctuation, so that words can be split at them. */
function spaceOut(text: string): string {
  return each(text, (c) => {
    const point = pointOf(c);
    return PUNCTUATION.has(point) ? ` ${c} ` : WHITESPACE.has(point) ? " " : c;
  });
}

function decompose(character: string): string {
  return DECOMPOSED.has(pointOf(character)) ? character.normalize("NFD") : character;
}

function stripMarks(text: string): string {
  return each(text, (c) => (MARKS.has(pointOf(c)) ? "" : c));
}

let lowercased: Map<number, number> | null = null;

function lowerCharacter(character: string): string {
  lowercased ??= mapOfRuns(LOWERCASED);
  const small = lowercased.get(pointOf(character));
  return small === undefined ? character.toLowerCase() : String.fromCodePoint(small);
}

/**
 * Unicode's canonical ordering: each run of marks sorted, stably, by combining class.
 *
 * The platform's NFD sorts so. What it may decompose as well are marks, which are then stripped.
 */
function orderMarks(text: string): string {
  let ordered = "";
  let run = "";
  for (const character of text) {
    const point = pointOf(character);
    if ((MARKS.has(point) || REORDERED.has(point)) && isReorderable(character)) {
      run += character;
    } else {
      ordered += run.normalize("NFD") + character;
      run = "";
    }
  }
  return ordered + run.normalize("NFD");
}

/** Of class 0 though they decompose into marks of other classes. */
const STARTERS = "\u0f73\u0f75\u0f81";

/** Whether the character has a combining class: then canonical ordering moves one of two neighbours. */
function isReorderable(character: string): boolean {
  // U+0334 has class 1 and U+0345 class 240, the lowest and the highest.
  const alone = character.normalize("NFD");
  return (
    !STARTERS.includes(character) &&
    (`${character}\u0334`.normalize("NFD") !== `${alone}\u0334` ||
      `\u0345${character}`.normalize("NFD") !== `\u0345${alone}`)
  );
}
