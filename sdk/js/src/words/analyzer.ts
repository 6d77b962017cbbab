/** From text to terms, for indexing and for queries alike; Python's `analyzer.py`. */
import { breathe } from "../platform/cancelling.js";
import { mapOfRuns } from "../tokenizer/character_class.js";
import { BEYOND_ASCII, bare } from "./characters.js";
import type { LoadProgram } from "./languages.js";
import { checkLanguage, Stemming } from "./stemming.js";
import { cut } from "./tokens.js";
import { FOLDED, UNFOLDED } from "./word_tables.js";

const MOST_CACHED = 1 << 15; // chunks, words
const LONGEST_CACHED = 64; // characters of a chunk
const CHUNKS_AT_ONCE = 2048;
const BLANKS = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;

/** The terms of a chunk of text, which has no blank inside. Words and pairs make a document's length. */
interface Terms {
  readonly words: readonly string[];
  readonly pairs: readonly string[];
  readonly compounds: readonly string[];
  readonly joins: readonly string[];
  readonly parts: readonly string[];
}

// Of a query's terms.
const WEIGHTS: readonly (readonly [keyof Terms, number])[] = [
  ["words", 1],
  ["pairs", 1],
  ["compounds", 1.5],
  ["joins", 0.5],
  ["parts", 0.5],
];

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
  private readonly ofWords = new Map<string, string>();

  /** @throws InvalidInputError no language that words are stemmed in, nor "none" */
  constructor(
    readonly language: string,
    load: LoadProgram,
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
      for (const one of await this.complete(() => some.map((chunk) => this.terms(chunk)))) {
        length += one.words.length + one.pairs.length;
        for (const [kind] of WEIGHTS) for (const term of one[kind]) terms.set(term, (terms.get(term) ?? 0) + 1);
      }
    }
    return { terms, length };
  }

  /** The weights of a query's terms. */
  query(text: string): Promise<ReadonlyMap<string, number>> {
    return this.complete(() => {
      const weights = new Map<string, number>();
      for (const chunk of chunksOf(text)) {
        const terms = this.terms(chunk);
        for (const [kind, weight] of WEIGHTS) {
          for (const term of terms[kind]) weights.set(term, (weights.get(term) ?? 0) + weight);
        }
      }
      return weights;
    });
  }

  /** What `work` gives once no word lacks its stemmer. */
  private async complete<T>(work: () => T): Promise<T> {
    for (;;) {
      const made = work();
      if (!(await this.stemming.complete())) return made;
      this.known.clear();
      this.ofWords.clear();
    }
  }

  private terms(chunk: string): Terms {
    let terms = this.known.get(chunk);
    if (terms === undefined) {
      terms = this.analyzed(chunk);
      if (chunk.length <= LONGEST_CACHED) remember(this.known, chunk, terms);
    }
    return terms;
  }

  private analyzed(chunk: string): Terms {
    const { words, pairs, compounds, joins, parts } = cut(chunk);
    const term = (word: string): string => this.term(word);
    return {
      words: words.map(term),
      pairs: pairs.map(term),
      compounds: compounds.map((one) => bare(folded(one))),
      joins: joins.map(term),
      parts: parts.map(term),
    };
  }

  private term(word: string): string {
    const lower = folded(this.language === "turkish" ? word.replaceAll("I", "\u0131") : word);
    let term = this.ofWords.get(lower);
    if (term === undefined) remember(this.ofWords, lower, (term = bare(this.stemming.stem(lower))));
    return term;
  }
}

function remember<T>(cache: Map<string, T>, key: string, value: T): void {
  if (cache.size >= MOST_CACHED) cache.clear();
  cache.set(key, value);
}

/** As Python's `split()`. */
function chunksOf(text: string): string[] {
  return text.split(BLANKS).filter((chunk) => chunk !== "");
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
