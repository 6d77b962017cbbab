/**
 * Stems of words, by Snowball's algorithm of the language, or of the word's script; Python's `stemming.py`.
 * A stemmer is loaded when a text of its script is met for the first time.
 */
import { InvalidInputError } from "../errors.js";
import { characterCount, repr, show } from "../python_text.js";
import type { LoadProgram } from "./languages.js";
import { type Program, stemmer } from "./stemmer.js";

/** The language that leaves every word whole. */
export const NONE = "none";

/** Letters of each script, and the language that has it where the index's own does not write it. */
const SCRIPTS: Readonly<Record<string, readonly [letters: RegExp, language: string]>> = {
  latin: [/[A-\u024f\u1e00-\u1eff]/, "english"],
  greek: [/[\u0370-\u03ff\u1f00-\u1fff]/, "greek"],
  cyrillic: [/[\u0400-\u052f]/, "russian"],
  armenian: [/[\u0530-\u058f]/, "armenian"],
  hebrew: [/[\u0590-\u05ff]/, ""],
  arabic: [/[\u0600-\u06ff\u0750-\u077f]/, "arabic"],
  devanagari: [/[\u0900-\u097f]/, "hindi"],
  tamil: [/[\u0b80-\u0bff]/, "tamil"],
};
const LATIN =
  "basque catalan czech danish dutch english esperanto estonian finnish french german hungarian indonesian irish " +
  "italian lithuanian norwegian polish portuguese romanian spanish swedish turkish";
/** The languages with a stemmer, and the scripts that each is written in. */
const LANGUAGES = new Map([
  ...LATIN.split(" ").map((language) => [language, ["latin"]] as const),
  ["arabic", ["arabic"]],
  ["armenian", ["armenian"]],
  ["greek", ["greek"]],
  ["hindi", ["devanagari"]],
  ["nepali", ["devanagari"]],
  ["persian", ["arabic"]],
  ["russian", ["cyrillic"]],
  ["serbian", ["latin", "cyrillic"]],
  ["tamil", ["tamil"]],
  ["yiddish", ["hebrew"]],
] as (readonly [string, readonly string[]])[]);
const [LEAST, MOST] = [3, 64]; // letters of a word that is stemmed

/** `language`, where it is one that words are stemmed in, or "none". Throws InvalidInputError: it is not. */
export function checkLanguage(language: unknown): string {
  const expected = [...[...LANGUAGES.keys()].sort(), NONE];
  if (expected.includes(language as string)) return language as string;
  throw new InvalidInputError(`language is ${show(language)}, expected one of ${expected.map(repr).join(", ")}`);
}

/** The stemmers of an index in one language; each is loaded when a word needs it. */
export class Stemming {
  private readonly scripts: readonly { letters: RegExp; language: string }[];
  private readonly loaded = new Map<string, (word: string) => string>();
  private readonly missing = new Set<string>();

  constructor(
    language: string,
    private readonly load: LoadProgram,
  ) {
    const written = LANGUAGES.get(language) ?? [];
    this.scripts = Object.entries(SCRIPTS).map(([script, [letters, other]]) => ({
      letters,
      language: language === NONE ? "" : written.includes(script) ? language : other,
    }));
  }

  /** Load the stemmers that words lacked; whether there were some. */
  async complete(): Promise<boolean> {
    const languages = [...this.missing];
    for (const language of languages) {
      this.loaded.set(language, stemmer(JSON.parse(await this.load(language)) as Program));
      this.missing.delete(language);
    }
    return languages.length > 0;
  }

  /** The stem of a lower-case word, with its accents; the word, where its stemmer is not loaded yet. */
  stem(word: string): string {
    const length = characterCount(word);
    if (length < LEAST || length > MOST || /[0-9]/.test(word)) return word;
    const { language } = this.scripts.find(({ letters }) => letters.test(word[0]!)) ?? {};
    if (!language) return word;
    const stem = this.loaded.get(language);
    if (!stem) this.missing.add(language);
    return stem?.(word) || word;
  }
}
