/**
 * Conformance in an engine that has nothing but JavaScript: words, ids, searches, changes and stores.
 *
 * It reads no file and knows no test runner: engines.test.ts bundles it with its data, and compares
 * what it says in Hermes and in QuickJS with what it says in Node.
 */

import { MemorySource, openTokenizer } from "pocketquery";
import * as gateway from "pocketquery/gateway";
import { type ChangeStore, type Index, MemoryChanges, openIndex, type OpenIndexOptions, type SearchOptions } from "pocketquery/index";
import * as releases from "pocketquery/releases";
import { MemoryBackend, QueryStore } from "pocketquery/store";
import * as training from "pocketquery/training";
import { byCodePoint } from "../../dist/python_text.js";
import { encodeUtf8 } from "../../dist/utf8.js";
import { Analyzer } from "../../dist/words/analyzer.js";
import { loadProgram } from "../../dist/words/languages.js";

type Files = Record<string, string>; // base 64

interface Search {
  query: string;
  k: number;
  mode: "dense" | "lexical" | "hybrid";
  vector?: number[];
  filter?: Record<string, unknown> | null;
  hits: [string, number, number | null, number | null][];
}

export interface Answers {
  size: number;
  searches: Search[];
  filters?: [unknown, string[] | null][];
}

interface Step {
  now: number;
  do: string;
  query: string;
  shown?: string[];
  opened?: string | null;
  result?: boolean;
  kept: unknown[];
}

/** What the runner is given. */
export interface Data {
  indexes: Record<"base" | "compact" | "search", Files>;
  dimension: number;
  base: Answers;
  compact: Answers;
  changed: Answers;
  changes: { delete?: string[]; add?: { id: string; text: string; metadata: object }[]; vectors?: number[][] }[];
  words: [language: string, text: string, terms: Record<string, number>, length: number][];
  /** With the vectors of their queries, by the text. */
  search: Answers;
  vectors: Record<string, number[]>;
  /** Queries that the encoder does not read: words alone find for them. */
  unread: string[];
  wordpiece: { tokenizer: object; texts: string[]; cases: { change: object; max_length: number; ids: number[][] }[] };
  sentencepiece: { model: string; texts: string[]; ids: number[][] }[];
  lives: Step[][];
  older: [string, string, boolean][];
  views: string[];
}

/** Runs everything; tells each part with how many cases it has, those that are wrong, and what came out. */
export async function run(text: string, tell: (line: string) => void): Promise<void> {
  const data = JSON.parse(text, revived) as Data;
  const say = (part: string, cases: number, wrong: unknown[], outcome: unknown): void =>
    tell(JSON.stringify({ part, cases, wrong: wrong.slice(0, 5), sum: sumOf(JSON.stringify(outcome)) }, shown));
  const parts: Record<string, () => Promise<[number, unknown[], unknown]>> = {
    words: async () => {
      const analyzers = new Map(data.words.map(([language]) => [language, new Analyzer(language, loadProgram)]));
      const made: [terms: unknown, length: number][] = [];
      for (const [language, text] of data.words) {
        const { terms, length } = await analyzers.get(language)!.occurrences(text);
        made.push([Object.fromEntries([...terms].sort(([left], [right]) => byCodePoint(left, right))), length]);
      }
      return compared(data.words.map((one, i) => [one, made[i]!] as const), ([, found]) => found, ([[, , terms, length]]) => [terms, length]);
    },
    wordpiece: async () =>
      compared(
        data.wordpiece.cases,
        ({ change, max_length }) => {
          const file = encodeUtf8(JSON.stringify({ ...data.wordpiece.tokenizer, ...change }));
          const tokenizer = openTokenizer("wordpiece", file, max_length);
          return data.wordpiece.texts.map((one) => tokenizer.encode(one));
        },
        ({ ids }) => ids,
      ),
    sentencepiece: async () =>
      compared(
        data.sentencepiece,
        ({ model, texts }) => {
          const tokenizer = openTokenizer("sentencepiece", bytesOf(model), 64, new Map([["layout", "xlm-roberta"]]));
          return texts.map((one) => tokenizer.encode(one));
        },
        ({ ids }) => ids,
      ),
    base: async () => searched(await openIndex(source(data.indexes.base)), data.base),
    compact: async () => searched(await opened(data.indexes.compact), data.compact),
    "text queries": async () => {
      const encoder = {
        spaceId: (await opened(data.indexes.search)).spaceId,
        encodeQuery: async (query: string) => Float32Array.from(data.vectors[query]!),
        reads: (query: string) => !data.unread.includes(query),
      };
      return searched(await opened(data.indexes.search, { encoder }), data.search);
    },
    "changes, opened again": async () => {
      const changes = new MemoryChanges();
      const index = await changed(data, changes);
      const before = await searched(index, data.changed);
      const again = await searched(await opened(data.indexes.base, { changes }), data.changed);
      await index.compact();
      const after = await searched(await opened(data.indexes.base, { changes }), data.compact);
      return [before[0] + again[0] + after[0], [before[1], again[1], after[1]].flat(), [before[2], again[2], after[2]]];
    },
    "an index of its own": async () => {
      const encoder = {
        spaceId: "own",
        dimension: data.dimension,
        encodeQuery: async (query: string) => vectorOf(query, data.dimension),
        encodeDocument: async (texts: readonly string[]) => texts.map((one) => vectorOf(one, data.dimension)),
      };
      const index = await openIndex(null, { encoder: encoder as never, changes: new MemoryChanges() });
      const texts = data.words.slice(0, 40);
      await index.add(texts.map(([, words], i) => ({ id: `d${i}`, text: words, metadata: { i } })));
      await index.delete(["d3", "d4"]);
      const hits = await index.search("sea bridge ñandú 東京", { mode: "hybrid", k: 20, filter: { i: { $gte: 2 } } });
      const again = await index.search(data.words[7]![1], { mode: "hybrid", k: 3 });
      return [2, hits.length === 20 && again.length === 3 && index.size === texts.length - 2 ? [] : [hits.length, again.length, index.size], [hits, again]];
    },
    store: async () => {
      const wrong: unknown[] = [];
      for (const steps of data.lives) wrong.push(...(await lived(steps)));
      return [data.lives.length, wrong, null];
    },
    versions: async () => compared(data.older, ([left, right]) => releases.isOlder(left, right), ([, , wanted]) => wanted),
    views: async () => {
      const made = data.views.map((one) => training.mistype(one, 0.3, new training.Random(5)));
      return [made.length, [], made];
    },
    loaded: async () => [2, [gateway.Participation, training.trainLocally].filter((one) => typeof one !== "function"), null],
  };
  for (const [part, work] of Object.entries(parts)) {
    try {
      say(part, ...(await work()));
    } catch (error) {
      say(part, 0, [String(error), String((error as Error).stack)], null);
    }
  }
  tell("done");
}

function compared<T>(cases: readonly T[], work: (one: T) => unknown, wanted: (one: T) => unknown): [number, unknown[], unknown] {
  const outcomes = cases.map(work);
  const wrong = cases.filter((one, i) => JSON.stringify(outcomes[i]) !== JSON.stringify(wanted(one)));
  return [cases.length, wrong, outcomes];
}

async function searched(index: Index, expected: Answers): Promise<[number, unknown[], unknown]> {
  const wrong: unknown[] = index.size === expected.size ? [] : [["size", index.size, expected.size]];
  const outcomes: unknown[] = [];
  for (const { query, hits, filter, ...options } of expected.searches) {
    const found = await index.search(query, { ...options, ...(filter ? { filter } : {}) } as SearchOptions);
    const made = found.map(({ id, score, cosine, bm25 }) => [id, score, cosine, bm25]);
    if (JSON.stringify(made) !== JSON.stringify(hits)) wrong.push([query, options.mode, made, hits]);
    outcomes.push(made);
  }
  for (const [filter, ids] of expected.filters ?? []) {
    const vector = new Float32Array(index.dimension).fill(1);
    const found = await index.search(vector, { k: 1000, filter: filter as never }).then(
      (hits) => hits.map(({ id }) => id).sort(),
      (error: Error) => error.name === "InvalidInputError" ? null : String(error),
    );
    if (JSON.stringify(found) !== JSON.stringify(ids)) wrong.push([filter, found]);
  }
  return [expected.searches.length + (expected.filters ?? []).length, wrong, outcomes];
}

async function changed(data: Data, changes: ChangeStore): Promise<Index> {
  const index = await opened(data.indexes.base, { changes });
  for (const change of data.changes) {
    if (change.add) await index.add(change.add as never, change.vectors!);
    else await index.delete(change.delete!);
  }
  return index;
}

async function lived(steps: readonly Step[]): Promise<unknown[]> {
  let now = steps[0]?.now ?? 0;
  const place = new MemoryBackend();
  const store = await QueryStore.open(place, { maxRows: 6, maxAgeDays: 30, maxBytes: 220, clock: () => now });
  const wrong: unknown[] = [];
  for (const step of steps) {
    if (step.do === "reopen") break; // a store in memory ends here
    now = step.now;
    let result: boolean | undefined;
    if (step.do === "add") result = await store.add(step.query, step.shown, step.opened);
    else if (step.do === "opened") result = await store.recordOpened(step.query, step.opened ?? "");
    else if (step.do === "forget") await store.forget(step.query);
    else if (step.do === "give") await store.giveConsent();
    else if (step.do === "withdraw") await store.withdrawConsent();
    else if (step.do === "erase") await store.eraseAll();
    const kept = (await store.export()).map(({ query, shown: ids, opened, time }) => [query, ids, opened, time]);
    if (result !== step.result || JSON.stringify(kept) !== JSON.stringify(step.kept)) wrong.push([step, result, kept]);
  }
  return wrong;
}

/** A vector of its own for every text. */
function vectorOf(text: string, dimension: number): Float32Array {
  let sum = sumOf(text);
  return Float32Array.from({ length: dimension }, () => ((sum = (sum * 48271) % 2147483647) / 2147483647) - 0.5);
}

function sumOf(text: string | undefined): number {
  let sum = 7;
  for (const character of text ?? "") sum = (sum * 31 + (character.codePointAt(0) as number)) % 2147483647;
  return sum || 1;
}

/** Without hashes, which take long in plain JavaScript. */
function opened(files: Files, options: OpenIndexOptions = {}): Promise<Index> {
  return openIndex(source(files), { check: "sizes", ...options });
}

function source(files: Files): MemorySource {
  return new MemorySource(new Map(Object.entries(files).map(([name, packed]) => [name, bytesOf(packed)])), "index");
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Base 64, which not every engine has. */
function bytesOf(packed: string): Uint8Array {
  const digits = Array.from(packed.replace(/=+$/, ""), (digit) => DIGITS.indexOf(digit));
  const bytes = new Uint8Array(Math.floor((digits.length * 3) / 4));
  for (let i = 0; i < bytes.length; i++) {
    const [at, shift] = [Math.floor((i * 4) / 3), 4 - 2 * (i % 3)];
    bytes[i] = (digits[at]! << (6 - shift)) | ((digits[at + 1] ?? 0) >> shift);
  }
  return bytes;
}

function revived(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const { $bigint, $number } = value as { $bigint?: string; $number?: string };
  if ($bigint !== undefined) return BigInt($bigint);
  return $number === undefined ? value : Number($number);
}

function shown(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? `${value}n` : value;
}
