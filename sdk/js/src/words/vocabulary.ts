/**
 * What an index's vocabulary adds to a query: words that are nearly the same, longer or compound; Python's
 * `vocabulary.py`.
 *
 * A word that no document has stands for the nearest ones, else for the longest term that it begins with, since a
 * mistyped ending hides the stem. The last word, while it is being typed, stands for all that begin with it. In
 * languages that write compounds as one word, a word finds the compounds that begin or end with it, and a compound
 * its parts: where no document has the word, it is worth what these are.
 */
import { byCodePoint, characterCount } from "../python_text.js";
import type { Analyzer } from "./analyzer.js";
import { bare } from "./characters.js";
import type { Query } from "./query.js";

/** Languages that write compounds as one word. */
export const COMPOUNDING = ["german", "dutch", "swedish", "danish", "norwegian", "finnish", "estonian", "hungarian"];
const NEAREST = 3; // words that stand for one that is not there
const MOST_SOUGHT = 16; // words of a query whose nearest are looked for
const DISCOUNT = 0.5; // of the weight, for each letter that differs
const COMPLETIONS = 20;
const COMPLETION_WEIGHT = 0.7;
const COMPOUNDS = 30;
const COMPOUND_WEIGHT = 0.25; // of a word that a document has, else:
const ABSENT_WEIGHT = 0.5;
const LEAST_PART = 4; // letters of a compound's part
const LEAST_REST = 3;
const TWO_EDITS = 8; // letters of a word in which two may differ
const MOST_ENDING = 5; // letters that a stemmer may cut off
const BEFORE = "bananas"; // written before a word, gives the stem that it has at a compound's end
const LINKS = ["", "s", "es", "n", "en", "er", "e"]; // between the parts of a compound

/** The terms of an index. */
export class Vocabulary {
  private readonly known: ReadonlySet<string>;
  /** Of each term, the letters as bits, and how many it has. */
  private letters: Int32Array | undefined;
  private lengths: Uint16Array | undefined;
  /** The terms from their ends, in an order that begins with what they begin with. */
  private reversed: string[] | undefined;

  /**
   * @param terms each once, in the order of code points
   * @param frequency how many documents have a term
   */
  constructor(
    private readonly terms: readonly string[],
    readonly frequency: (term: string) => number,
  ) {
    this.known = new Set(terms);
  }

  has(term: string): boolean {
    return this.known.has(term);
  }

  /** All terms that begin with `prefix`, in their order. */
  beginningWith(prefix: string): string[] {
    return beginning(this.terms, prefix, byCodePoint);
  }

  /** All terms that end with `suffix`. */
  endingWith(suffix: string): string[] {
    this.reversed ??= this.terms.map(reversed).sort();
    return beginning(this.reversed, reversed(suffix), byUnit).map(reversed);
  }

  /**
   * Terms that differ from `term` by 1 to `edits` edits, and by how many: the nearest first, of these the most
   * frequent.
   */
  nearest(term: string, edits: number): [term: string, distance: number][] {
    this.letters ??= Int32Array.from(this.terms, lettersOf);
    this.lengths ??= Uint16Array.from(this.terms, characterCount);
    const [own, sought] = [lettersOf(term), Array.from(term)];
    const near: { one: string; distance: number; frequency: number }[] = [];
    for (let place = 0; place < this.letters.length; place++) {
      if (Math.abs(this.lengths[place]! - sought.length) > edits) continue;
      const letters = this.letters[place]!;
      if (bitsOf(own & ~letters) > edits || bitsOf(letters & ~own) > edits) continue;
      const one = this.terms[place]!;
      const distance = distanceOf(sought, Array.from(one), edits);
      if (distance > 0 && distance <= edits) near.push({ one, distance, frequency: this.frequency(one) });
    }
    near.sort((a, b) => a.distance - b.distance || b.frequency - a.frequency || byCodePoint(a.one, b.one));
    return near.map(({ one, distance }) => [one, distance]);
  }
}

/** What begins with `prefix` of texts in an order by `compare`. */
function beginning(ordered: readonly string[], prefix: string, compare: (left: string, right: string) => number): string[] {
  let [first, stop] = [0, ordered.length];
  while (first < stop) {
    const middle = (first + stop) >> 1;
    if (compare(ordered[middle]!, prefix) < 0) first = middle + 1;
    else stop = middle;
  }
  while (stop < ordered.length && ordered[stop]!.startsWith(prefix)) stop++;
  return ordered.slice(first, stop);
}

function byUnit(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

function reversed(text: string): string {
  return Array.from(text).reverse().join("");
}

function lettersOf(term: string): number {
  let bits = 0;
  for (const letter of term) bits |= 1 << (letter.codePointAt(0)! % 32);
  return bits;
}

function bitsOf(number: number): number {
  const pairs = number - ((number >>> 1) & 0x55555555);
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/**
 * Edits between two words, a swap of neighbours as one (optimal string alignment); any number over `most` where
 * there are more.
 */
function distanceOf(one: readonly string[], other: readonly string[], most: number): number {
  let older: number[] = [];
  let before: number[] = [];
  let row = Array.from({ length: other.length + 1 }, (_, j) => j);
  for (let i = 1; i <= one.length; i++) {
    [older, before, row] = [before, row, [i]];
    let least = i;
    for (let j = 1; j <= other.length; j++) {
      let cost = Math.min(before[j]! + 1, row[j - 1]! + 1, before[j - 1]! + (one[i - 1] === other[j - 1] ? 0 : 1));
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) {
        cost = Math.min(cost, older[j - 2]! + 1);
      }
      row.push(cost);
      if (cost < least) least = cost;
    }
    if (least > most) return most + 1;
  }
  return row[other.length]!;
}

/** A query's terms, and what the vocabulary has for them. */
export interface Expansion {
  /** Of each term. */
  readonly weights: ReadonlyMap<string, number>;
  /** Of each compound of a word that no document has, that word's term. */
  readonly instead: ReadonlyMap<string, string>;
}

/** The weights of a query's terms and of what the vocabulary has for them; within `analyzer.complete`. */
export function expand(query: Query, vocabulary: Vocabulary, analyzer: Analyzer): Expansion {
  const weights = new Map(query.terms);
  const instead = new Map<string, string>();
  const add = (term: string, weight: number): void => void weights.set(term, Math.max(weights.get(term) ?? 0, weight));
  if (query.prefix) {
    const completions = completionsOf(query.prefix, vocabulary).map((term) => ({ term, frequency: vocabulary.frequency(term) }));
    completions.sort((a, b) => b.frequency - a.frequency || byCodePoint(a.term, b.term));
    for (const { term } of completions.slice(0, COMPLETIONS)) add(term, COMPLETION_WEIGHT);
  }
  let absent = 0;
  for (const [term, typed] of query.words) {
    const weight = query.terms.get(term)!;
    const isAbsent = !vocabulary.has(term);
    if (isAbsent) {
      const isSought = ++absent <= MOST_SOUGHT;
      const nearest = isSought ? vocabulary.nearest(term, characterCount(term) >= TWO_EDITS ? 2 : 1).slice(0, NEAREST) : [];
      const near = nearest.length ? nearest : begunOf(bare(typed), vocabulary).map((begun) => [begun, 2] as const);
      for (const [other, distance] of near) add(other, weight * DISCOUNT ** distance);
    }
    for (const other of compoundsOf(term, typed, vocabulary, analyzer)) {
      add(other, weight * (isAbsent ? ABSENT_WEIGHT : COMPOUND_WEIGHT));
      if (isAbsent && !query.terms.has(other) && !instead.has(other)) instead.set(other, term);
    }
  }
  return { weights, instead };
}

/** Terms that begin with `prefix`; where there are none, the longest that it begins with. */
function completionsOf(prefix: string, vocabulary: Vocabulary): string[] {
  const begun = vocabulary.beginningWith(prefix);
  return begun.length ? begun : begunOf(prefix, vocabulary);
}

/**
 * The longest term that `word` begins with and that lacks at most five letters: its stem, where the ending is not
 * complete, or mistyped.
 */
function begunOf(word: string, vocabulary: Vocabulary): string[] {
  const letters = Array.from(word);
  for (let length = letters.length - 1; length >= Math.max(letters.length - MOST_ENDING, LEAST_REST); length--) {
    const begun = letters.slice(0, length).join("");
    if (vocabulary.has(begun)) return [begun];
  }
  return [];
}

/**
 * Compounds that begin or end with a word, the shortest first, and its own parts; none in languages that write no
 * compounds.
 * @param typed the word as it was typed, in lower case
 */
function compoundsOf(term: string, typed: string, vocabulary: Vocabulary, analyzer: Analyzer): string[] {
  if (!COMPOUNDING.includes(analyzer.language) || characterCount(term) < LEAST_PART) return [];
  const longer = new Map<string, number>();
  const add = (others: readonly string[], form: string): void => {
    const least = characterCount(form) + LEAST_REST;
    for (const other of others) if (characterCount(other) >= least) longer.set(other, characterCount(other));
  };
  add(vocabulary.beginningWith(term), term);
  add(vocabulary.endingWith(term), term);
  const after = analyzer.term(BEFORE + typed);
  const within = after.startsWith(BEFORE) ? after.slice(BEFORE.length) : after;
  if (characterCount(within) >= LEAST_PART && !vocabulary.has(within)) add(vocabulary.endingWith(within), within);
  const compounds = [...longer].sort(([a, left], [b, right]) => left - right || byCodePoint(a, b));
  const letters = Array.from(typed);
  const parts: string[] = [];
  for (let split = LEAST_PART; split <= letters.length - LEAST_PART; split++) {
    const head = analyzer.term(letters.slice(split).join(""));
    if (characterCount(head) < LEAST_REST || !vocabulary.has(head)) continue;
    const modifier = modifierOf(letters.slice(0, split).join(""), vocabulary, analyzer);
    if (modifier) parts.push(modifier, head);
  }
  return [...compounds.slice(0, COMPOUNDS).map(([other]) => other), ...parts];
}

function modifierOf(text: string, vocabulary: Vocabulary, analyzer: Analyzer): string {
  for (const link of LINKS) {
    if (!text.endsWith(link)) continue;
    const stem = analyzer.term(text.slice(0, text.length - link.length));
    if (characterCount(stem) >= LEAST_REST && vocabulary.has(stem)) return stem;
  }
  return "";
}
