/**
 * From text to terms, as Python's `analysis.py` has it by SQLite's FTS5: letters, digits and marks
 * make words; case and accents are folded; English is stemmed; scripts that write no spaces become
 * their single characters and overlapping pairs.
 */
import { breathe } from "../platform/cancelling.js";
import { stem } from "./porter.js";
import { decodeLoosely, encodeUtf8 } from "../utf8.js";
import { mapOfRuns } from "../tokenizer/character_class.js";
import { FOLD, MARK, WORD } from "./term_tables.js";

// Thai, Lao, Myanmar, Khmer; Kana, Bopomofo, Han and its extensions (Hangul writes spaces).
const UNSPACED = new RegExp(
  "[\\u0e00-\\u0e4f\\u0e80-\\u0ecf\\u0edc-\\u0eff\\u1000-\\u103f\\u1050-\\u108f\\u1780-\\u17d3" +
    "\\u3005-\\u3007\\u3021-\\u3029\\u3031-\\u3035\\u3041-\\u3096\\u3099-\\u309a\\u309d-\\u309f" +
    "\\u30a1-\\u30fa\\u30fc-\\u30ff\\u3105-\\u312f\\u31a0-\\u31bf\\u31f0-\\u31ff\\u3400-\\u4dbf" +
    "\\u4e00-\\u9fff\\ua9e0-\\ua9fe\\uaa60-\\uaa7f\\uf900-\\ufaff\\u{1b000}-\\u{1b16f}" +
    "\\u{20000}-\\u{3ffff}]+",
  "gu",
);
const ACCENTS = /[\u0300-\u036f]+/g;
const BEYOND_ASCII = /[^\0-\x7f]/;
const MOST_BYTES = 32768; // FTS5 cuts a longer word

const MOST_MARKS = 30;
// So many characters in a row of which each may be a mark; Latin letters, Han and Hangul are none.
const MANY_MARKS = new RegExp(`[^\\0-\\u02ff\\u3400-\\u9fff\\uac00-\\ud7a3]{${MOST_MARKS + 1}}`, "u");
const JOINER = "\u034f"; // a starter, but an accent, and the marks on its sides meet

// No word, accent or unspaced run goes on over them.
const SEPARATOR = /[\0-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]/g;
const LEAST_PART = 1 << 14; // characters

/** How often each term occurs in `text`, the terms in the order of their UTF-8. */
export function termsOf(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  count(text, counts);
  return inOrder(counts);
}

/** As {@link termsOf}, of a long text part by part, between which the thread's other work goes on. */
export async function termsInParts(text: string, signal?: AbortSignal): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const part of partsOf(text)) {
    await breathe(signal);
    count(part, counts);
  }
  return inOrder(counts);
}

function* partsOf(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    SEPARATOR.lastIndex = at + LEAST_PART;
    const end = SEPARATOR.exec(text)?.index ?? text.length;
    yield text.slice(at, end);
    at = end;
  }
}

function count(text: string, counts: Map<string, number>): void {
  for (const word of words(spaced(text))) {
    const term = termOf(word);
    counts.set(term, (counts.get(term) ?? 0) + 1);
  }
}

function inOrder(counts: ReadonlyMap<string, number>): Map<string, number> {
  return new Map([...counts].sort(([left], [right]) => compareTexts(left, right)));
}

/** The order of two texts by code point, which is that of their UTF-8. */
export function compareTexts(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let i = 0; i < length; i++) {
    const [a, b] = [left.charCodeAt(i), right.charCodeAt(i)];
    if (a !== b) return rank(a) - rank(b);
  }
  return left.length - right.length;
}

/** Half of a character beyond U+FFFF comes after U+E000 to U+FFFF, not before. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** `text` without accents, compatible characters made one, unspaced runs cut in pieces. */
function spaced(text: string): string {
  if (!BEYOND_ASCII.test(text)) return text;
  const bare = streamSafe(text).normalize("NFKD").replace(ACCENTS, "").normalize("NFC");
  return bare.replace(UNSPACED, pieces);
}

/**
 * `text` with the first 30 of each run of combining marks: canonical ordering sorts a run in the
 * square of its length, and words have no more than a few.
 */
function streamSafe(text: string): string {
  if (!MANY_MARKS.test(text)) return text;
  let kept = "";
  let run = 0;
  for (const character of text) {
    run = isMoved(character) ? run + 1 : 0;
    if (run <= MOST_MARKS) kept += character;
  }
  return kept;
}

/** Whether canonical ordering may move it: its combining class is not 0. */
function isMoved(character: string): boolean {
  let moved = areMoved.get(character);
  if (moved === undefined) areMoved.set(character, (moved = mayMove(character)));
  return moved;
}

const areMoved = new Map<string, boolean>();

function mayMove(character: string): boolean {
  const [first = ""] = character.normalize("NFKD");
  // Beside marks of the greatest class and the least it changes places with one of them.
  return first === JOINER || [`\u0345${first}`, `${first}\u0334`].some((two) => two.normalize("NFD") !== two);
}

function pieces(run: string): string {
  const characters: string[] = [];
  for (const character of run) {
    if (characters.length && isMark(character)) characters[characters.length - 1] += character;
    else characters.push(character);
  }
  const pairs = characters.slice(1).map((right, i) => characters[i]! + right);
  return ` ${[...characters, ...pairs].join(" ")} `;
}

/** The words of a spaced text, folded. */
function words(text: string): string[] {
  if (!BEYOND_ASCII.test(text)) return text.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  const found: string[] = [];
  let word = "";
  for (const character of text) {
    const folded = foldOf(character.codePointAt(0)!);
    if (folded) word += folded;
    else if (word) {
      found.push(word);
      word = "";
    }
  }
  if (word) found.push(word);
  return found;
}

function termOf(word: string): string {
  if (!BEYOND_ASCII.test(word)) return stem(word.slice(0, MOST_BYTES));
  const bytes = encodeUtf8(word).subarray(0, MOST_BYTES);
  if (bytes.length > 64) return decoded(bytes);
  const stemmed = stem(String.fromCharCode(...bytes));
  return decoded(Uint8Array.from(stemmed, (byte) => byte.charCodeAt(0)));
}

/** The text in `bytes`, without what a cut left of its last character. */
function decoded(bytes: Uint8Array): string {
  let start = bytes.length - 1;
  while (start > 0 && bytes[start]! >= 0x80 && bytes[start]! < 0xc0) start--;
  const first = bytes[start] ?? 0;
  const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return decodeLoosely(start + length > bytes.length ? bytes.subarray(0, start) : bytes);
}

/** What a character of a word is folded to; empty where it separates words. */
function foldOf(code: number): string {
  if (code >= 128) {
    tables ??= { words: ranges(WORD), folds: mapOfRuns(FOLD) };
    return inRanges(tables.words, code)
      ? String.fromCodePoint(tables.folds.get(code) ?? code)
      : "";
  }
  if (code >= 65 && code <= 90) return String.fromCharCode(code + 32);
  return (code >= 97 && code <= 122) || (code >= 48 && code <= 57) ? String.fromCharCode(code) : "";
}

function isMark(character: string): boolean {
  marks ??= ranges(MARK);
  return inRanges(marks, character.codePointAt(0)!);
}

let tables: { words: number[]; folds: Map<number, number> } | undefined;
let marks: number[] | undefined;

function numbers(list: string): number[] {
  return list.split(" ").map((digits) => Number.parseInt(digits, 36));
}

/** First and last of each range, rising. */
function ranges(list: string): number[] {
  let last = 0;
  return numbers(list).map((difference) => (last += difference));
}

function inRanges(bounds: number[], code: number): boolean {
  let low = 0;
  let high = bounds.length / 2;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (bounds[2 * middle + 1]! < code) low = middle + 1;
    else high = middle;
  }
  return 2 * low < bounds.length && bounds[2 * low]! <= code;
}

