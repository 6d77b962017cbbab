/** From text to terms, for indexing and for queries alike; Python's `analyzer.py`. */
import { breathe } from "../platform/cancelling.js";
import { mapOfRuns } from "../tokenizer/character_class.js";
import { fromEnd } from "../platform/lists.js";
import { characterCount, chunksOf } from "../python_text.js";
import { BEYOND_ASCII, bare } from "./characters.js";
import { COMMON_WORDS, type LoadProgram } from "./languages.js";
import { checkLanguage, Stemming } from "./stemming.js";
import { parse, type Query } from "./query.js";
import { type Cut, cut, hasWord, isAlpha } from "./tokens.js";
import { FOLDED, UNFOLDED } from "./word_tables.js";

const LEAST_SOUGHT = 4; // letters of a word whose nearest are looked for
const FEWEST_COMMON = 2; // words, by which a query's language is told
const MOST_CACHED = 1 << 15; // chunks, words
const LONGEST_CACHED = 64; // characters of a chunk
const CHUNKS_AT_ONCE = 2048;

/** The terms of a chunk of text, which has no blank inside. Words and pairs make a document's length. */
export interface Terms {
  readonly words: readonly string[];
  readonly pairs: readonly string[];
  readonly compounds: readonly string[];
  readonly joins: readonly string[];
  readonly parts: readonly string[];
}

const KINDS = ["words", "pairs", "compounds", "joins", "parts"] as const;
// Of a query's terms. What is beside words takes weight from them.
const BESIDE = { compounds: 1, joins: 0.5, parts: 0.5 };
const ALONE = { ...BESIDE, joins: 1 }; // where a name is all that is asked
const INNER = 0.5; // less for a compound within another
const WORDS_OF_A_COMPOUND = 0.5;
const WORDS_OF_A_JOIN = 0.75;

/** A document's terms. */
export interface Occurrences {
  /** How often each occurs. */
  readonly terms: ReadonlyMap<string, number>;
  readonly length: number;
}

/** Terms of texts in one language. */
export class Analyzer {
  private readonly stemming: Stemming;
  private readonly known = new Map<string, Terms>();
  private common: Readonly<Record<string, string>> | undefined;
  private readonly ofWords = new Map<string, string>();

  /** @throws InvalidInputError no language that words are stemmed in, nor "none" */
  constructor(
    readonly language: string,
    private readonly load: LoadProgram,
  ) {
    this.stemming = new Stemming(checkLanguage(language), load);
  }

  /** A document's terms; within a long text the thread's other work goes on. */
  async occurrences(text: string, signal?: AbortSignal): Promise<Occurrences> {
    const terms = new Map<string, number>();
    let length = 0;
    const chunks = chunksOf(text);
    for (let start = 0; start < chunks.length; start += CHUNKS_AT_ONCE) {
      await breathe(signal);
      const some = chunks.slice(start, start + CHUNKS_AT_ONCE);
      const analyzed = await this.complete(() => some.map((chunk) => this.termsOf(chunk)));
      for (const one of analyzed) {
        length += one.words.length + one.pairs.length;
        for (const kind of KINDS) for (const term of one[kind]) terms.set(term, (terms.get(term) ?? 0) + 1);
      }
    }
    return { terms, length };
  }

  /** The terms of a text's words in their order, in which phrases are looked for. */
  sequence(text: string): Promise<string[]> {
    return this.complete(() => this.inOrder(text));
  }

  /**
   * A query's terms, and what a document must have.
   *
   * @param text as a user typed it, see query.ts
   * @param prefix the last word is being typed, and stands for all that begin with it
   */
  query(text: string, prefix = false): Promise<Query> {
    const { plain, required, excluded, phrases, excludedPhrases, requiredPhrases } = parse(text);
    const last = fromEnd(chunksOf(text)) ?? "";
    const isTyped = prefix && hasWord(fromEnd(Array.from(text)) ?? "") && plain.endsWith(last);
    const typed = isTyped ? (fromEnd(cut(last).words) ?? "") : "";
    return this.complete(() => {
      const terms = new Map<string, number>();
      const words = new Map<string, string>();
      const whole = new Set<string>();
      const chunks = chunksOf(plain);
      for (const chunk of chunks) {
        const made = cut(chunk);
        const some = this.analyzed(made);
        for (const word of made.words) {
          const term = this.term(word);
          const isSought = characterCount(term) >= LEAST_SOUGHT && isAlpha(term);
          if (isSought && !words.has(term)) words.set(term, this.lower(word));
        }
        for (const term of [...some.words, ...some.pairs]) whole.add(term);
        const own = some.compounds.length ? WORDS_OF_A_COMPOUND : some.joins.length ? WORDS_OF_A_JOIN : 1;
        const isAlone = chunks.length === 1 && !some.compounds.length;
        const weights = { words: own, pairs: own, ...(isAlone ? ALONE : BESIDE) };
        const add = (term: string, weight: number): void => void terms.set(term, (terms.get(term) ?? 0) + weight);
        for (const kind of KINDS) for (const term of some[kind]) add(term, weights[kind]);
        for (const term of some.compounds.slice(0, -1)) add(term, -INNER);
      }
      return {
        plain,
        terms,
        words,
        beside: new Set([...terms.keys()].filter((term) => !whole.has(term))),
        required: new Set(required.flatMap((chunk) => this.sharpest(chunk))),
        excluded: excluded.map((chunk) => new Set(this.sharpest(chunk))),
        phrases: phrases.map((phrase) => this.inOrder(phrase)),
        excludedPhrases: excludedPhrases.map((phrase) => this.inOrder(phrase)),
        requiredPhrases: requiredPhrases.map((phrase) => this.inOrder(phrase)),
        prefix: bare(folded(typed)),
      };
    });
  }

  private inOrder(text: string): string[] {
    return chunksOf(text).flatMap((chunk) => this.termsOf(chunk).words);
  }

  /** What a document must have to have this chunk: the whole name, where it is one. */
  private sharpest(chunk: string): readonly string[] {
    const { words, pairs, compounds, joins } = this.termsOf(chunk);
    return [compounds.slice(-1), joins, pairs, words].find((some) => some.length > 0) ?? [];
  }

  /** The words that say nothing about what a text is about, between blanks; of each language. */
  async commonWords(): Promise<Readonly<Record<string, string>>> {
    return (this.common ??= JSON.parse(await this.load(COMMON_WORDS)) as Record<string, string>);
  }

  /**
   * The terms of a query's common words in the language that has most of them, in the order of the query. None where
   * fewer than two are; none of those that a hit must have.
   */
  async commonTerms(asked: Query): Promise<string[]> {
    const languages = Object.entries(await this.commonWords());
    const written = chunksOf(asked.plain).flatMap((chunk) => cut(chunk).words);
    const speaking = written.map((word) => languages.filter(([, words]) => words.includes(` ${folded(word)} `)).map(([name]) => name));
    const counts = new Map<string, number>();
    for (const language of speaking.flat()) counts.set(language, (counts.get(language) ?? 0) + 1);
    const most = Math.max(...counts.values());
    if (!(most >= FEWEST_COMMON)) return [];
    const common = written.filter((_, i) => speaking[i]!.some((language) => counts.get(language) === most));
    const needed = new Set([...asked.required, ...asked.phrases.flat()]);
    const terms = await this.complete(() => common.map((word) => this.term(word)));
    return [...new Set(terms)].filter((term) => asked.terms.has(term) && !needed.has(term));
  }

  /** What `work` gives once no word lacks its stemmer. */
  async complete<T>(work: () => T): Promise<T> {
    for (;;) {
      const made = work();
      if (!(await this.stemming.complete())) return made;
      this.known.clear();
      this.ofWords.clear();
    }
  }

  /** The terms of a chunk of text, which has no blank inside; within {@link complete}. */
  termsOf(chunk: string): Terms {
    let terms = this.known.get(chunk);
    if (terms === undefined) {
      const own = chunk.split("").join(""); // a part of a text may keep the whole text in memory
      terms = this.analyzed(cut(own));
      if (own.length <= LONGEST_CACHED) remember(this.known, own, terms);
    }
    return terms;
  }

  private analyzed({ words, pairs, compounds, joins, parts }: Cut): Terms {
    // A run of accents alone is no term.
    const terms = (some: readonly string[]): string[] => some.map((word) => this.term(word)).filter((term) => term !== "");
    return {
      words: terms(words),
      pairs: terms(pairs),
      compounds: compounds.map((one) => bare(folded(one))),
      joins: terms(joins),
      parts: terms(parts),
    };
  }

  /** The term of one word, empty where it is a run of accents alone; within {@link complete}. */
  term(word: string): string {
    const lower = this.lower(word);
    let term = this.ofWords.get(lower);
    if (term === undefined) remember(this.ofWords, lower, (term = bare(this.stemming.stem(lower))));
    return term;
  }

  private lower(word: string): string {
    return folded(this.language === "turkish" ? word.replaceAll("I", "\u0131") : word);
  }
}

function remember<T>(cache: Map<string, T>, key: string, value: T): void {
  if (cache.size >= MOST_CACHED) cache.clear();
  cache.set(key, value);
}

/** As Python's `casefold()`. */
function folded(word: string): string {
  if (!BEYOND_ASCII.test(word)) return word.toLowerCase();
  folds ??= new Map([
    ...Array.from(mapOfRuns(FOLDED), ([from, to]) => [String.fromCodePoint(from), String.fromCodePoint(to)] as const),
    ...UNFOLDED.split(" ").map(([one = "", ...several]) => [one, several.join("")] as const),
  ]);
  return Array.from(word, (one) => folds!.get(one) ?? (one < "\x80" ? one.toLowerCase() : one)).join("");
}

let folds: Map<string, string> | undefined;
