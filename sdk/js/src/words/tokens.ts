/**
 * A chunk of text, which has no blank inside, cut into words and compounds; Python's `tokens.py`.
 *
 * What is written as one name is a compound beside its words: `get_user_name`, `3.11.7`, `C++`, `.NET`,
 * `flask.Blueprint`, `e-mail`. Scripts that write no spaces become their letters and pairs of neighbours. A
 * run of Hangul is a word, with its pairs of syllables beside it.
 */
import { fromEnd } from "../platform/lists.js";
import { characterCount } from "../python_text.js";
import { BEYOND_ASCII, lettersOf, normalize, UNSPACED } from "./characters.js";
import { LETTERS, MARKS, OTHERS } from "./word_tables.js";

const MOST_LETTERS = 128; // of a word or compound
const BEYOND_UNITS = /[\ud800-\udbff]/;

/** What a chunk of text consists of, as written. */
export interface Cut {
  /** In their order; of unspaced scripts the letters. */
  readonly words: string[];
  /** Neighbours in a run of an unspaced script. */
  readonly pairs: string[];
  /** Whole names. */
  readonly compounds: string[];
  /** Words written with a hyphen or an underscore between letters, without it. */
  readonly joins: string[];
  /** Of a word in camel case; pairs of syllables of Hangul. */
  readonly parts: string[];
}

const BASE =
  "[\\u231a-\\u23ff\\u25fb-\\u25fe\\u2600-\\u27bf\\u2b05-\\u2b55\\u3030\\u303d\\u3297\\u3299\\u{1f000}-\\u{1f1e5}" +
  "\\u{1f200}-\\u{1f3fa}\\u{1f400}-\\u{1faff}]";
const TONES = "[\\u{1f3fb}-\\u{1f3ff}]";
const ONE = `${BASE}\\ufe0f?${TONES}?`;
const EMOJI = new RegExp(
  "[\\u{1f1e6}-\\u{1f1ff}]{2}|" + // a flag
    "\\u{1f3f4}[\\u{e0061}-\\u{e007a}]+\\u{e007f}|" + // that of a region
    `${ONE}(?:\\u200d(?:${ONE}|[\\u2640\\u2642\\u2695\\u2696\\u2708]\\ufe0f?))*`,
  "gu",
);
const MAYBE_EMOJI = /[\u231a-\u2bff\u3030\u303d\u3297\u3299\u{1f000}-\u{1faff}]/u;
const STYLE = new RegExp(`\\ufe0f|${TONES}`, "gu");

const SIGNS = "_-.,'@&+:>/#$";
const RUN = new RegExp(
  "(h+)|(k+)|" +
    "((?<![w0.])\\.(?=w)|(?<![w0-])--(?=w)|(?<![w0#])#(?=[w0])|(?<![w0@$])[@$](?=w))?" +
    "([w0]+(?:(?:_+|[-.'@&]|\\+{1,2}|::|->)[w0]+)*)" +
    "((?:\\+{1,2}|#)(?![w0]))?",
  "g",
);
const WORD = /[w0]+/g;
const STRONG = /(?<!0)\.|\.(?!0)|@|::|->/g;
const SLASHED = /(?<![w0/.-])[w0]{1,3}\/[w0]{1,3}(?:\+{1,2})?(?![w0/.-])/g; // I/O, TCP/IP
const DUNDER = /(?<![w0_])__[w0]+(?:_+[w0]+)*__(?![w0_])/g; // __init__
const GROUPED = /(?<![w0,.])0{1,3}(?:,000)+(?!,?[w0])/g; // 1,000,000
const CONTRACTION = /'(?:t|re|ve|ll|d|m)$|^o'/i;
const VERSION = /^[vV](?=\d+\.\d)/;
const NUMBER = /0+(?:\.0+)+(?![w0])/;
const DROPPED_SIGN = /(?<!\d)[-_']+|[-_']+(?!\d)/g;
const CAMEL = /(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/;
/** What a name in camel case has: `getUserName`, `HTTPServer`; `JavaScript` and `URLs` are words. */
const IDENTIFIER = /^[a-z][a-z0-9]+[A-Z]|[A-Z][A-Z0-9][A-Z][a-z]{2}/;

/** The words and compounds of a chunk of text. */
export function cut(chunk: string): Cut {
  const made: Cut = { words: [], pairs: [], compounds: [], joins: [], parts: [] };
  const text = normalize(MAYBE_EMOJI.test(chunk) ? chunk.replace(EMOJI, (sequence) => emoji(made, sequence)) : chunk);
  const [letters, shape] = [lettersIn(text), shapeOf(text)];
  for (const { 0: { length }, 1: unspaced, 2: hangul, 3: prefix = "", 4: chain = "", 5: suffix = "", index } of shape.matchAll(RUN)) {
    const stop = index + length;
    if (unspaced) {
      const some = lettersOf(part(letters, index, stop));
      made.words.push(...some);
      made.pairs.push(...pairwise(some));
    } else if (hangul) {
      const run = part(letters, index, stop);
      made.words.push(run.slice(0, MOST_LETTERS));
      if (run.length > 2) made.parts.push(...pairwise(Array.from(run)));
    } else {
      const [start, end] = [index + prefix.length, stop - suffix.length];
      addChain(made, part(letters, index, start), part(letters, start, end), chain, part(letters, end, stop));
    }
  }
  for (const pattern of [SLASHED, DUNDER]) {
    for (const { 0: { length }, index } of shape.matchAll(pattern)) made.compounds.push(part(letters, index, index + length));
  }
  for (const { 0: { length }, index } of shape.matchAll(GROUPED)) {
    made.joins.push(part(letters, index, index + length).replaceAll(",", ""));
  }
  return made;
}

/** Whether `text` has a letter or a digit, so that words can find it. */
export function hasWord(text: string): boolean {
  return /[w0hk]/.test(shapeOf(normalize(text)));
}

/** `text` by its characters: itself, where each is one unit. */
function lettersIn(text: string): string | readonly string[] {
  return BEYOND_UNITS.test(text) ? Array.from(text) : text;
}

function part(letters: string | readonly string[], from: number, to: number): string {
  return typeof letters === "string" ? letters.slice(from, to) : letters.slice(from, to).join("");
}

/** w for a letter or mark, 0 a digit, h a letter of an unspaced script, k of Hangul, a sign as itself, else a blank. */
function shapeOf(text: string): string {
  let shape = "";
  for (const character of text) {
    shape += shapes.get(character) ?? shapeOfCharacter(character);
  }
  return shape;
}

const shapes = new Map<string, string>();

function shapeOfCharacter(character: string): string {
  const point = character.codePointAt(0)!;
  let shape = " ";
  if (!BEYOND_ASCII.test(character)) {
    if (/[0-9]/.test(character)) shape = "0";
    else if (/[A-Za-z]/.test(character)) shape = "w";
    else if (SIGNS.includes(character)) shape = character;
  } else if (UNSPACED.test(character)) shape = "h";
  else if (/[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]/.test(character)) shape = "k";
  else if (LETTERS.has(point) || OTHERS.has(point)) shape = "w";
  shapes.set(character, shape);
  return shape;
}

function pairwise(letters: readonly string[]): string[] {
  return letters.slice(1).map((right, i) => letters[i]! + right);
}

function emoji(made: Cut, sequence: string): string {
  const whole = sequence.replaceAll("\ufe0f", "");
  const parts = sequence.split("\u200d").map((part) => part.replace(STYLE, ""));
  made.words.push(...parts);
  if (whole !== parts[0]) made.compounds.push(whole);
  return " ";
}

function addChain(made: Cut, prefix: string, text: string, shape: string, suffix: string): void {
  if (/'[sS]$/.test(text)) [text, shape] = [text.slice(0, -2), shape.slice(0, -2)]; // Python's
  const letters = lettersIn(text);
  const members: string[] = [];
  let [start, before] = [0, 0]; // of the last member, and of the one before it
  for (const sign of [...shape.matchAll(STRONG), null]) {
    const stop = sign ? sign.index : shape.length;
    members.push(part(letters, start, stop));
    addMember(made, fromEnd(members)!, shape.slice(start, stop));
    if (sign) [before, start] = [start, stop + sign[0].length];
  }
  if (shape.length > MOST_LETTERS) return;
  if (members.length > 1 && members.every((member) => characterCount(member) === 1)) {
    made.joins.push(members.join("")); // U.S.A.
  } else if (members.length > 1 || prefix || suffix) {
    if (members.length > 2) made.compounds.push(part(letters, before, shape.length) + suffix); // Flask.route of app.Flask.route
    if (members.length > 1 && prefix) made.compounds.push(text + suffix); // app.route of @app.route
    made.compounds.push(prefix + text + suffix);
  }
}

function addMember(made: Cut, text: string, shape: string): void {
  const letters = lettersIn(text);
  const words = Array.from(shape.matchAll(WORD), ({ 0: { length }, index }) => [index, index + length] as const);
  for (const [start, stop] of words) made.words.push(part(letters, start, Math.min(stop, start + MOST_LETTERS)));
  for (const [start, stop] of words) {
    const word = part(letters, start, stop);
    if (!IDENTIFIER.test(word)) continue;
    const parts = word.split(CAMEL);
    if (parts.every((one) => characterCount(one) > 1)) made.parts.push(...parts);
  }
  if (words.length === 1 || shape.length > MOST_LETTERS) return;
  if (text.includes("'")) {
    if (words.length === 2 && CONTRACTION.test(text)) made.joins.push(text.replaceAll("'", ""));
    return;
  }
  const from = VERSION.test(text) ? 1 : 0;
  const bare = text.slice(from);
  const number = NUMBER.exec(shape.slice(from));
  if (number && number[0].length < shape.length - from) {
    const start = from + number.index;
    made.compounds.push(part(letters, start, start + number[0].length));
  }
  const joined = bare.replace(DROPPED_SIGN, "");
  (isAlpha(joined) ? made.joins : made.compounds).push(joined);
  if (bare.includes("_")) made.compounds.push(bare);
}

/** Whether there are letters and nothing else. */
export function isAlpha(text: string): boolean {
  const isLetter = (one: string): boolean =>
    /[A-Za-z]/.test(one) || (/[hk]/.test(shapeOf(one)) ? !MARKS.begins(one) : LETTERS.begins(one));
  return text !== "" && Array.from(text).every(isLetter);
}
