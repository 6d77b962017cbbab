/**
 * The part of a text that shows why it was found: around the query's words, which are marked. Python's `snippet.py`;
 * everything is counted in code points until the end.
 */
import { InvalidInputError } from "../errors.js";
import { chunksOf, show } from "../python_text.js";
import { checkOptions, checkText, type Names } from "../texts.js";
import type { Analyzer } from "../words/analyzer.js";
import { extendsCharacter, UNSPACED } from "../words/characters.js";
import type { Query } from "../words/query.js";
import { hasWord } from "../words/tokens.js";
import type { Contents } from "./contents.js";
import type { Metadata } from "./document.js";

/** A part of a text. */
export interface Snippet {
  /** In one line; an ellipsis stands where it was cut. */
  readonly text: string;
  /** Where the query's words are in `text`: first and one past the last, in UTF-16 units, as `slice` takes them. */
  readonly marks: readonly (readonly [start: number, stop: number])[];
}

export interface SnippetOptions {
  /** Most characters, at least 20; 160 by default. */
  readonly length?: number;
  /** The last word is still being typed: those that begin with it are marked. */
  readonly prefix?: boolean;
}

/** A hit, a document or a text. */
export type SnippetSource = { readonly text: string; readonly metadata?: Metadata } | string;

type Span = [start: number, stop: number];
type Mark = [start: number, stop: number, word: number];
type Wanted = Map<string, number>;
type Atom = [start: number, stop: number, isUnspaced: boolean];
type Line = readonly string[];

const SNIPPET_OPTIONS: Names<SnippetOptions> = { length: true, prefix: true };
const ELLIPSIS = "…";
const CONTEXT = 0.25; // of the length: what is shown before the first marked word
const LONGEST_NAME = 256; // characters without a blank, within which a compound is looked for
const SENTENCE_ENDS = ".!?…。！？।؟";
const LEAST_OF_SENTENCES = 0.6; // of the length, before a snippet without marks ends with a sentence

/**
 * The passage of a hit around the words of `query`, marked, in the index's language; where none is there, as in a hit
 * that was found by meaning, the beginning. A file's name and tags are left out where the words are not there alone. Words such as "the" and "how" are marked in phrases only; words of the index that
 * stood for a mistyped one are marked, too.
 *
 * @param hit a hit, a document or a text
 * @throws InvalidInputError no text, or a length below 20
 */
export async function snippet(
  index: { readonly state: Contents },
  hit: SnippetSource,
  query: string,
  options: SnippetOptions = {},
): Promise<Snippet> {
  const { length = 160, prefix = false } = checkOptions(options, SNIPPET_OPTIONS);
  const text = checkText(typeof hit === "string" ? hit : hit?.text);
  if (!Number.isSafeInteger(length) || length < 20) {
    throw new InvalidInputError(`the length of a snippet is ${show(length)}, expected at least 20`);
  }
  const { analyzer } = index.state;
  const points = Array.from(text);
  const own = points.slice(preambleOf(hit, points));
  const lineOf = (some: Line): Line => Array.from(chunksOf(some.join("")).join(" "));
  const marksOf = (some: Line): Promise<Mark[]> => analyzer.complete(() => marksIn(some, analyzer, asked, common));
  let line = lineOf(own);
  const typed = await analyzer.query(checkText(query, "the query"), prefix);
  const asked = { ...typed, terms: (await index.state.expanded(typed)).weights };
  const common = (await analyzer.commonWords())[analyzer.language] ?? "";
  let marks = await marksOf(line);
  if (marks.length === 0 && own.length < points.length) {
    const whole = lineOf(points);
    marks = await marksOf(whole);
    if (marks.length > 0) line = whole;
  }
  const [start, stop] = windowOf(line, marks, length);
  const [before, after] = [start > 0 ? ELLIPSIS : "", stop < line.length ? ELLIPSIS : ""];
  const units = (from: number, to: number): number => line.slice(from, to).join("").length;
  const shown = marks.filter(([first, last]) => first >= start && last <= stop);
  return {
    text: before + line.slice(start, stop).join("") + after,
    marks: united(shown).map(([first, last]): Span => {
      const at = before.length + units(start, first);
      return [at, at + units(first, last)];
    }),
  };
}

/** How much of the beginning is the file's name and tags, which stand beside the snippet; in code points. */
function preambleOf(hit: SnippetSource, text: Line): number {
  const length = typeof hit === "string" ? 0 : Number(hit.metadata?.["preamble"]);
  return text[length - 1] === "\n" ? length : 0;
}

function marksIn(line: Line, analyzer: Analyzer, asked: Query, common: string): Mark[] {
  const chunks: [start: number, chunk: Line][] = [];
  for (let start = 0; start <= line.length; ) {
    const end = line.indexOf(" ", start);
    const stop = end < 0 ? line.length : end;
    chunks.push([start, line.slice(start, stop)]);
    start = stop + 1;
  }
  const phrases = phrasesIn(chunks, asked, analyzer);
  let marks: Mark[] = [];
  for (const wanted of wantedOf(asked, analyzer, common)) {
    marks = chunks.flatMap(([start, chunk]) => {
      const found = inChunk(chunk, wanted, analyzer);
      return found.map(([first, last, word]): Mark => [start + first, start + last, word]);
    });
    if (marks.length || phrases.length) break;
  }
  return [...marks, ...phrases].sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
}

/** Terms that are marked; and those that are where none of the others is in the text. */
function wantedOf(asked: Query, analyzer: Analyzer, common: string): [strong: Wanted, weak: Wanted] {
  const [strong, weak]: [Wanted, Wanted] = [new Map(), new Map()];
  const known = new Set<string>();
  const chunks = chunksOf(asked.plain);
  for (const [number, chunk] of chunks.entries()) {
    const terms = allTerms(analyzer, chunk);
    for (const term of terms) known.add(term);
    const word = Array.from(chunk).filter(hasWord).join("").toLowerCase();
    if (word && common.includes(` ${word} `)) continue;
    for (const term of terms) {
      if (!weak.has(term)) weak.set(term, number);
      const isStrong = terms.size === 1 || (Array.from(term).length > 1 && !/^[0-9]+$/.test(term));
      if (isStrong && !strong.has(term)) strong.set(term, number);
    }
  }
  for (const term of asked.terms.keys()) {
    if (known.has(term)) continue;
    strong.set(term, chunks.length);
    weak.set(term, chunks.length);
  }
  return [strong, weak];
}

function allTerms(analyzer: Analyzer, chunk: string): Set<string> {
  const { words, pairs, compounds, joins, parts } = analyzer.termsOf(chunk);
  return new Set([...words, ...pairs, ...compounds, ...joins, ...parts]);
}

function phrasesIn(chunks: readonly [number, Line][], asked: Query, analyzer: Analyzer): Mark[] {
  if (!asked.phrases.length) return [];
  const words = chunks.flatMap(([start, chunk]) =>
    analyzer.termsOf(chunk.join("")).words.map((term) => ({ start, chunk, term })),
  );
  return asked.phrases.flatMap((phrase, number) =>
    words.flatMap((first, at): Mark[] => {
      const last = words[at + phrase.length - 1];
      if (!last || !phrase.every((term, i) => words[at + i]!.term === term)) return [];
      const stop = atomsOf(last.chunk).pop()?.[1] ?? last.chunk.length;
      return [[first.start + (atomsOf(first.chunk)[0]?.[0] ?? 0), last.start + stop, -1 - number]];
    }),
  );
}

/** Where in a chunk, which has no blank inside, wanted terms are. */
function inChunk(chunk: Line, wanted: Wanted, analyzer: Analyzer): Mark[] {
  const missing = new Set([...allTerms(analyzer, chunk.join(""))].filter((term) => wanted.has(term)));
  if (!missing.size) return [];
  const atoms = atomsOf(chunk);
  const textOf = (start: number, stop: number): string => chunk.slice(start, stop).join("");
  const marks: Mark[] = [];
  const look = (start: number, stop: number, terms: Iterable<string>): void => {
    const hits = [...terms].filter((term) => wanted.has(term));
    for (const term of hits) missing.delete(term);
    if (hits.length) marks.push([start, stop, Math.min(...hits.map((term) => wanted.get(term)!))]);
  };
  for (const [start, stop] of atoms) look(start, stop, allTerms(analyzer, textOf(start, stop)));
  for (const [i, [start, stop, isUnspaced]] of atoms.entries()) {
    const next = atoms[i + 1];
    if (isUnspaced && next?.[2] && stop === next[0]) look(start, next[1], analyzer.termsOf(textOf(start, next[1])).pairs);
  }
  if (chunk.length > LONGEST_NAME) return marks;
  for (const term of missing) {
    const has = (from: number, to: number): boolean => allTerms(analyzer, textOf(from, to)).has(term);
    let [start, stop] = [0, chunk.length];
    while (start < stop - 1 && has(start + 1, stop)) start++;
    while (start < stop - 1 && has(start, stop - 1)) stop--;
    const touched = atoms.filter(([first, last]) => first < stop && last > start);
    marks.push([
      Math.min(start, ...touched.map(([first]) => first)),
      Math.max(stop, ...touched.map(([, last]) => last)),
      wanted.get(term)!,
    ]);
  }
  return marks;
}

/** The words in a chunk, with whether it is a letter of a script that writes no spaces. */
function atomsOf(chunk: Line): Atom[] {
  const atoms: Atom[] = [];
  for (const [place, character] of chunk.entries()) {
    const isUnspaced = UNSPACED.test(character);
    const last = atoms[atoms.length - 1];
    const isWord = isUnspaced || hasWord(character);
    if (last?.[1] === place && (extendsCharacter(character) || (isWord && !isUnspaced && !last[2]))) last[1]++;
    else if (isWord) atoms.push([place, place + 1, isUnspaced]);
  }
  return atoms;
}

/** What is shown: the most words of the query, where a sentence or at least a word begins. */
function windowOf(line: Line, marks: readonly Mark[], length: number): Span {
  if (line.length <= length) return [0, line.length];
  if (!marks.length) {
    const end = wordEnd(line, 0, length - 1);
    for (let at = end; at > Math.trunc(end * LEAST_OF_SENTENCES); at--) {
      if (beginsSentence(line, at)) return [0, trimmed(line, at)];
    }
    return [0, trimmed(line, end)];
  }
  const context = Math.trunc(length * CONTEXT);
  let [most, first]: [[number, number], number] = [[-1, -1], 0];
  for (const [at, [start]] of marks.entries()) {
    const inside = marks.slice(at, at + length).flatMap(([, last, word]) => (last <= start + length - context ? [word] : []));
    const words = new Set(inside);
    const score: [number, number] = [words.size + 2 * [...words].filter((word) => word < 0).length, inside.length];
    if (score[0] > most[0] || (score[0] === most[0] && score[1] > most[1])) [most, first] = [score, start];
  }
  const earliest = Math.max(0, Math.min(first - context, line.length - length + 1));
  const start = beginning(line, earliest, first, length);
  const stop = start + length - 1 - (start > 0 ? 1 : 0);
  return [start, stop + 1 >= line.length ? line.length : wordEnd(line, start, stop)];
}

/** Where a snippet begins, at most at `first`: with a sentence, else with a word. */
function beginning(line: Line, earliest: number, first: number, length: number): number {
  if (earliest === 0) return 0;
  const words: number[] = [];
  for (let at = earliest; at <= first; at++) if (isWordEdge(line, at) && line[at] !== " ") words.push(at);
  const near = earliest + Math.trunc(length * CONTEXT);
  return words.find((at) => at <= near && beginsSentence(line, at)) ?? words[0] ?? wholeCharacter(line, earliest);
}

/** Where a snippet from `start` on ends, at most at `most`. */
function wordEnd(line: Line, start: number, most: number): number {
  for (let stop = most; stop > start + Math.floor((most - start) / 2); stop--) {
    if (isWordEdge(line, stop)) return trimmed(line, stop);
  }
  return wholeCharacter(line, most); // in one long word
}

function trimmed(line: Line, stop: number): number {
  return line[stop - 1] === " " ? stop - 1 : stop;
}

function beginsSentence(line: Line, at: number): boolean {
  if (!isWordEdge(line, at)) return false;
  const before = line[at - 1] === " " ? line[at - 2] : line[at - 1];
  return before !== undefined && SENTENCE_ENDS.includes(before);
}

/** Whether no word is cut between the characters before and at `at`. */
function isWordEdge(line: Line, at: number): boolean {
  const [before, here] = [line[at - 1], line[at]];
  if (before === undefined || here === undefined || before === " " || here === " ") return true;
  return (UNSPACED.test(before) || UNSPACED.test(here)) && wholeCharacter(line, at) === at;
}

/** `at`, or before it, where no visible character is cut. */
function wholeCharacter(line: Line, at: number): number {
  while (at > 0 && at < line.length && joins(line, at)) at--;
  return at;
}

function joins(line: Line, at: number): boolean {
  const [before, here] = [line[at - 1]!, line[at]!];
  if (extendsCharacter(here) || before === "\u200d") return true;
  if (/^[\u1100-\u11ff]$/.test(before) && /^[\u1160-\u11ff]$/.test(here)) return true; // letters of one syllable
  let flags = 0; // a flag is two regional indicators
  while (flags < at && isRegional(line[at - 1 - flags]!)) flags++;
  return flags % 2 === 1 && isRegional(here);
}

function isRegional(character: string): boolean {
  return character >= "\u{1f1e6}" && character <= "\u{1f1ff}";
}

/** Spans in order, those that touch as one. */
function united(marks: readonly Mark[]): Span[] {
  const spans: Span[] = [];
  for (const [start, stop] of marks) {
    const last = spans[spans.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], stop);
    else spans.push([start, stop]);
  }
  return spans;
}
