/** What Python trained: `python -m tests.conformance.training`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import type { Example, Hyperparameters, PaddedIds, StepBatch } from "pocketquery/training";
import { CONFORMANCE } from "../fixtures.js";

export const TRAINING = join(CONFORMANCE, "training");
export const BUNDLE = join(TRAINING, "bundle");

export interface Packed {
  shape: number[];
  data: string;
}

interface Fed {
  online_ids: number[][];
  target_ids: number[][];
  anchor: Packed;
  prototypes: number[][];
  shown: number[][];
  opened_weight: number[];
}

export interface Trained {
  examples: Example[];
  documents: Packed;
  steps: {
    hyperparameters: Record<string, number>;
    batches: Fed[];
    losses: number[][];
    vectors: Packed;
    online: Record<string, Packed>;
    target: Record<string, Packed>;
    second_moment: Record<string, Packed>;
  };
  local: {
    seed: number;
    steps: number;
    losses: number[][];
    health: Record<string, number>;
    adapter: Record<string, Packed>;
  };
  hybrid: {
    seed: number;
    steps: number;
    losses: number[][];
    adapter: Record<string, Packed>;
  };
  monitors: { columns: number; vectors: Packed; shipped: Packed; health: Record<string, number> }[];
  views: {
    texts: string[];
    numbers: Record<string, [number[], number[], number[], string]>;
    typed: { seed: number; rate: number; texts: string[] }[];
    rewritten: Record<string, string[]>;
  };
  plain: Record<string, string>;
}

export const TRAINED = JSON.parse(
  gunzipSync(readFileSync(join(TRAINING, "steps.json.gz"))).toString("utf8"),
) as Trained;

export function floats({ data }: Packed): Float32Array {
  return new Float32Array(Uint8Array.from(Buffer.from(data, "base64")).buffer);
}

/** The documents' vectors, one each, and their ids. */
export function documents(): { vectors: Float32Array[]; ids: string[] } {
  const [count = 0, dimension = 0] = TRAINED.documents.shape;
  const all = floats(TRAINED.documents);
  const vectors = Array.from({ length: count }, (_, row) =>
    all.slice(row * dimension, (row + 1) * dimension),
  );
  return { vectors, ids: vectors.map((_, row) => `d${row}`) };
}

/** Of the twenty steps. */
export function hyperparameters(): Hyperparameters {
  const entries = Object.entries(TRAINED.steps.hyperparameters);
  const named = entries.map(([name, value]) => [
    name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()), value,
  ]);
  return Object.fromEntries(named) as Hyperparameters;
}

/** What Python fed to a step. */
export function batchOf(fed: Fed): StepBatch {
  const size = fed.opened_weight.length;
  const { vectors } = documents();
  const stacked = (rows: number[]): Float32Array =>
    Float32Array.from(rows.flatMap((row) => [...(vectors[row] ?? new Float32Array(48))]));
  return {
    size,
    online: padded(fed.online_ids),
    target: padded(fed.target_ids),
    anchor: floats(fed.anchor),
    prototypes: stacked(fed.prototypes.flat()),
    shown: stacked(fed.shown.flat()),
    shownMask: Float32Array.from(fed.shown.flat(), (row) => (row >= 0 ? 1 : 0)),
    opened: new BigInt64Array(size),
    openedWeight: Float32Array.from(fed.opened_weight),
  };
}

function padded(tokens: number[][]): PaddedIds {
  const length = Math.max(...tokens.map((ids) => ids.length));
  const cells = tokens.flatMap((ids) => Array.from({ length }, (_, i) => ids[i] ?? null));
  return {
    ids: BigInt64Array.from(cells, (id) => BigInt(id ?? 0)),
    mask: BigInt64Array.from(cells, (id) => (id === null ? 0n : 1n)),
    length,
  };
}

/** The largest difference of two lists of numbers; NaN where one is none. */
export function apart(left: ArrayLike<number>, right: ArrayLike<number>): number {
  if (left.length !== right.length) return Number.NaN;
  let most = 0;
  for (let i = 0; i < left.length; i++) {
    const difference = Math.abs((left[i] as number) - (right[i] as number));
    if (!(difference <= most)) most = difference;
  }
  return most;
}
