/**
 * Characters that look or mean alike, made one, before a text is cut into words; Python's `characters.py`.
 *
 * The time is linear in the text: of a run of combining marks the first 30 count, since canonical ordering
 * sorts a run in the square of its length.
 */
import { mapOfRuns } from "../tokenizer/character_class.js";
import { DIGITS, DROPPED, MARKS } from "./word_tables.js";

// Thai, Lao, Myanmar, Khmer; Kana, Bopomofo, Han and its extensions (Hangul writes spaces).
export const UNSPACED = new RegExp(
  "[\\u0e00-\\u0e4f\\u0e80-\\u0ecf\\u0edc-\\u0eff\\u1000-\\u103f\\u1050-\\u108f\\u1780-\\u17d3" +
    "\\u3005-\\u3007\\u3021-\\u3029\\u3031-\\u3035\\u3041-\\u3096\\u3099-\\u309a\\u309d-\\u309f" +
    "\\u30a1-\\u30fa\\u30fc-\\u30ff\\u3105-\\u312f\\u31a0-\\u31bf\\u31f0-\\u31ff\\u3400-\\u4dbf" +
    "\\u4e00-\\u9fff\\ua9e0-\\ua9fe\\uaa60-\\uaa7f\\uf900-\\ufaff\\u{1b000}-\\u{1b16f}" +
    "\\u{20000}-\\u{3ffff}]",
  "u",
);
export const BEYOND_ASCII = /[^\0-\x7f]/;
const APOSTROPHES = "'`\u00b4\u02b9\u02bb\u02bc\u02bd\u02c8\u055a\u05f3\u2018\u2019\u201b\u2032\ua78c";
export const HYPHENS = "-\u058a\u05be\u2010\u2011\u2012\u2013\u2212";
const ALIKE = new Map(["\u0649\u064a", "\u06cc\u064a", "\u06a9\u0643", "\u06c1\u0647", "\u06c3\u0629"].map(([a, b]) => [a, b]));
const TONES = /^[\u{1f3fb}-\u{1f3ff}\uff9e\uff9f\u0e33\u0eb3]/u;
const PARTED = /(?<=[\u0620-\u06ff])\u200c(?=[\u0620-\u06ff])/g; // in Persian, a hyphen
const ACCENTS = /[\u0300-\u036f]+/g;

const MOST_MARKS = 30;
// So many characters in a row of which each may be a mark; Latin letters, Han and Hangul are none.
const MANY_MARKS = new RegExp(`[^\\0-\\u02ff\\u3400-\\u9fff\\uac00-\\ud7a3]{${MOST_MARKS + 1}}`, "u");

/** `text` with alike characters made one; accents and case stay, for the stemmers. */
export function normalize(text: string): string {
  if (!BEYOND_ASCII.test(text)) return text.replaceAll("`", "'");
  return replaced(replaced(streamSafe(text.replace(PARTED, "-"))).normalize("NFKD")).normalize("NFC");
}

/** A word in lower case without its accents, dotless i as i. */
export function bare(word: string): string {
  if (!BEYOND_ASCII.test(word)) return word;
  return word.normalize("NFD").replace(ACCENTS, "").replaceAll("\u0131", "i").normalize("NFC");
}

/** The letters of a run of an unspaced script: a vowel sign or tone mark belongs to the letter before it. */
export function lettersOf(run: string): string[] {
  const letters: string[] = [];
  for (const character of run) {
    if (letters.length && MARKS.begins(character)) letters[letters.length - 1] += character;
    else letters.push(character);
  }
  return letters;
}

/** Whether it is seen as part of the character before: accents, vowel signs, tones, joiners. */
export function extendsCharacter(character: string): boolean {
  if (!BEYOND_ASCII.test(character)) return false;
  return MARKS.begins(character) || DROPPED.has(character.codePointAt(0)!) || TONES.test(character);
}

/** Whether a character is a decimal digit, of whatever script. */
export function isDecimal(character: string): boolean {
  return /^[0-9]$/.test(replacement(character));
}

function replaced(text: string): string {
  let made = "";
  for (const character of text) made += replacement(character);
  return made;
}

const replacements = new Map<string, string>();

function replacement(character: string): string {
  let made = replacements.get(character);
  if (made === undefined) replacements.set(character, (made = replacementOf(character)));
  return made;
}

function replacementOf(character: string): string {
  if (APOSTROPHES.includes(character)) return "'";
  if (HYPHENS.includes(character)) return "-";
  const point = character.codePointAt(0)!;
  if (DROPPED.has(point)) return "";
  digits ??= mapOfRuns(DIGITS);
  const digit = digits.get(point);
  return digit === undefined ? (ALIKE.get(character) ?? character) : String.fromCharCode(digit);
}

let digits: Map<number, number> | undefined;

/** `text` with the first 30 of each run of combining marks. */
function streamSafe(text: string): string {
  if (!MANY_MARKS.test(text)) return text;
  let safe = "";
  let run = 0;
  for (const character of text) {
    run = isMoved(character) ? run + 1 : 0;
    if (run <= MOST_MARKS) safe += character;
  }
  return safe;
}

/** Whether canonical ordering may move it, or what it becomes goes before that. */
function isMoved(character: string): boolean {
  let moved = areMoved.get(character);
  if (moved === undefined) areMoved.set(character, (moved = mayMove(character)));
  return moved;
}

const areMoved = new Map<string, boolean>();

function mayMove(character: string): boolean {
  const parts = character.normalize("NFKD");
  if (!replaced(parts)) return true;
  const [first = ""] = parts;
  // Beside marks of the greatest class and the least it changes places with one of them.
  return [`\u0345${first}`, `${first}\u0334`].some((two) => two.normalize("NFD") !== two);
}
