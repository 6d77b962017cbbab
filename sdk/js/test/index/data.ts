/** The indexes that Python built, and what it found: `python -m tests.sdk.javascript_indexes`. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { MemorySource } from "pocketquery";

export const DATA = join(dirname(fileURLToPath(import.meta.url)), "../../../../conformance/index");
export const DIMENSION = 24;

export interface Search {
  query: string;
  k: number;
  mode: "dense" | "lexical" | "hybrid";
  vector?: number[];
  filter?: Record<string, unknown>;
  hits: [id: string, score: number, cosine: number | null, bm25: number | null][];
}

export interface Answers {
  size: number;
  searches: Search[];
  filters: [filter: unknown, ids: string[] | null][];
}

export interface Change {
  delete?: string[];
  add?: { id: string; text: string; metadata: Record<string, unknown> }[];
  vectors?: number[][];
}

interface Expected {
  base: Answers;
  changed: Answers;
  compact: Answers;
  changes: Change[];
  /** The rows of the vectors that were added, base 64. */
  rows: string;
  /** Numbers and their mean in float32. */
  means: [values: number[], mean: number][];
}

/** The JSON in a packed file, with the numbers that JSON lacks. */
export function unpacked(path: string): unknown {
  return JSON.parse(gunzipSync(readFileSync(path)).toString("utf8"), (_, value: unknown) => {
    if (typeof value !== "object" || value === null) return value;
    const { $bigint, $number } = value as { $bigint?: string; $number?: string };
    if ($bigint !== undefined) return BigInt($bigint);
    return $number === undefined ? value : Number($number);
  });
}

export const EXPECTED = unpacked(join(DATA, "expected.json.gz")) as Expected;

/** The files of an index, copied so that a test may change them. */
export function files(name: "base" | "compact"): Map<string, Uint8Array> {
  const folder = join(DATA, name);
  return new Map(
    readdirSync(folder).map((file) => [file, Uint8Array.from(readFileSync(join(folder, file)))]),
  );
}

export function source(name: "base" | "compact"): MemorySource {
  return new MemorySource(files(name), name);
}

/** Numbers in 0..1, the same at every run. */
export function drawer(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return ((state ^ (state >>> 15)) >>> 0) / 4294967296;
  };
}
