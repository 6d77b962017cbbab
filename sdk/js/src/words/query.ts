/**
 * What a search box is asked: words, `"phrases"`, `+must`, `-without`; Python's `query.py`.
 *
 * An operator counts only where it cannot be part of a word: a sign follows a blank and a letter follows the
 * sign. `--flag`, `-5`, `e-mail`, `C++`, `a - b`, an inch's `5"` and a quotation mark without its pair are text.
 * So is all of a query that has more than seven words beside its phrases: it is a sentence, whose signs are its own.
 */
import { chunksOf, isBlank, stripped } from "../python_text.js";
import { HYPHENS, isDecimal, normalize } from "./characters.js";
import { hasWord, isAlpha } from "./tokens.js";

const QUOTES = ['"\u201c\u201d\u201e\u201f\u301d\u301e\u301f\uff02', "\u00ab\u00bb", "\u2039\u203a"];
const MOST_WORDS = 7; // beside phrases, of a query with operators
const MUST = "+\uff0b";
const SIGNS = MUST + HYPHENS;

/** A query's parts, as written. */
export interface Parsed {
  /** The text without operators and without what is excluded; it is what an encoder gets. */
  readonly plain: string;
  /** What stands behind a + or a -. */
  readonly required: readonly string[];
  readonly excluded: readonly string[];
  /** What stands in quotation marks. */
  readonly phrases: readonly string[];
  readonly excludedPhrases: readonly string[];
  /** Those of the phrases that stand behind a +. */
  readonly requiredPhrases: readonly string[];
}

/** A query as terms. */
export interface Query {
  /** The text without operators and without what is excluded, for an encoder. */
  readonly plain: string;
  /** The weight of each term that scores. */
  readonly terms: ReadonlyMap<string, number>;
  /**
   * Those of them that are words of letters, and each as it was typed, in lower case: where no document has one,
   * `expand` looks for the nearest.
   */
  readonly words: ReadonlyMap<string, string>;
  /** Those of the terms that no word is: compounds, joins and parts. */
  readonly beside: ReadonlySet<string>;
  /** Terms that a document must have, all of them. */
  readonly required: ReadonlySet<string>;
  /** A document that has all terms of one of these is no hit. */
  readonly excluded: readonly ReadonlySet<string>[];
  /** Sequences of words, each of which a document must have if any document of the index has it. */
  readonly phrases: readonly (readonly string[])[];
  readonly excludedPhrases: readonly (readonly string[])[];
  /** Those of the phrases that it must have in any case. */
  readonly requiredPhrases: readonly (readonly string[])[];
  /** The beginning of the word that is being typed, in lower case; empty for none. */
  readonly prefix: string;
}

/** Whether a text has the phrases, and none of those excluded, by the terms of its words. */
export function matches({ phrases, excludedPhrases }: Pick<Query, "phrases" | "excludedPhrases">, words: readonly string[]): boolean {
  const isWithin = (phrase: readonly string[]): boolean =>
    words.some((_, start) => phrase.every((word, i) => words[start + i] === word));
  return phrases.every(isWithin) && !excludedPhrases.some(isWithin);
}

/** A query without some of its terms. */
export function without(query: Query, some: readonly string[]): Query {
  const rest = <T>(of: ReadonlyMap<string, T>): Map<string, T> => new Map([...of].filter(([term]) => !some.includes(term)));
  return { ...query, terms: rest(query.terms), words: rest(query.words) };
}

/** A part of a query that is more than words: its sign, what it is about, and where it ends. */
interface Part {
  readonly sign: string;
  readonly body: string;
  readonly isPhrase: boolean;
  readonly stop: number;
}

/** `text` as words alone, for what nobody typed as a query: `a "b" -c` is `a b c`. */
export function withoutOperators(text: string): string {
  let [plain, done] = ["", 0];
  for (let at = 0; at < text.length; ) {
    const part = at === 0 || isBlank(text[at - 1]!) ? partAt(text, at) : undefined;
    if (part) {
      plain += text.slice(done, at) + part.body;
      done = part.stop;
    }
    at = part?.stop ?? at + 1;
  }
  return done === 0 ? text : withoutOperators(plain + text.slice(done)); // signs within quotation marks
}

/** Whether a query is nothing but blanks, quotation marks and signs: asks for nothing yet. */
export function asksNothing(text: string): boolean {
  const marks = QUOTES.join("") + SIGNS;
  return Array.from(text).every((character) => isBlank(character) || marks.includes(character));
}

/** The parts of a query. */
export function parse(text: string): Parsed {
  const none = (): Record<string, string[]> => ({ required: [], excluded: [], phrases: [], excludedPhrases: [], requiredPhrases: [] });
  const made = none();
  let [plain, done, words] = ["", 0, 0];
  const wordsIn = (some: string): number => chunksOf(some).filter(hasWord).length;
  for (let at = 0; at < text.length; ) {
    const part = at === 0 || isBlank(text[at - 1]!) ? partAt(text, at) : undefined;
    if (part && hasWord(part.body)) {
      const excludes = part.sign !== "" && !MUST.includes(part.sign);
      const kind = part.isPhrase ? (excludes ? "excludedPhrases" : "phrases") : excludes ? "excluded" : "required";
      made[kind]!.push(part.body);
      if (kind === "phrases" && part.sign) made.requiredPhrases!.push(part.body);
      const before = text.slice(done, at);
      words += wordsIn(before) + (part.isPhrase ? 0 : 1);
      plain += before + (excludes ? "" : part.body);
      done = part.stop;
    }
    at = part?.stop ?? at + 1;
  }
  if (words + wordsIn(text.slice(done)) > MOST_WORDS) {
    return { plain: stripped(text), ...none() } as unknown as Parsed;
  }
  return { plain: stripped(plain + text.slice(done)), ...made } as unknown as Parsed;
}

function partAt(text: string, at: number): Part | undefined {
  const sign = SIGNS.includes(text[at]!) ? text[at]! : "";
  const start = at + sign.length;
  for (const quotes of QUOTES) {
    if (start >= text.length || !quotes.includes(text[start]!)) continue;
    let end = start + 1;
    while (end < text.length && !quotes.includes(text[end]!)) end++;
    if (end < text.length && end > start + 1 && !isWordCharacter(characterAt(text, end + 1))) {
      return { sign, body: text.slice(start + 1, end), isPhrase: true, stop: end + 1 };
    }
  }
  if (sign === "" || !beginsWord(text, start)) return undefined;
  let stop = start;
  while (stop < text.length && !isBlank(text[stop]!)) stop++;
  return { sign, body: text.slice(start, stop), isPhrase: false, stop };
}

/** Whether a letter is here, or behind one sign that is no operator. */
function beginsWord(text: string, at: number): boolean {
  const first = characterAt(text, at);
  if (isLetter(first)) return true;
  const isSign = first !== "" && !isWordCharacter(first) && !isBlank(first) && !`+${HYPHENS}`.includes(first);
  return isSign && isLetter(characterAt(text, at + first.length));
}

function isLetter(character: string): boolean {
  return isWordCharacter(character) && !isDecimal(character);
}

function characterAt(text: string, at: number): string {
  return at < text.length ? String.fromCodePoint(text.codePointAt(at)!) : "";
}

function isWordCharacter(character: string): boolean {
  return character === "_" || Array.from(normalize(character)).some((one) => isAlpha(one) || isDecimal(one));
}
