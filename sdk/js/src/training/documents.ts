/**
 * The documents against which local training compares queries: fixed points, so that a loss over
 * them cannot be met by rotating or shrinking the space. An open index is one set of them.
 */

import { InvalidInputError } from "../errors.js";
import { unitVector } from "../index/vectors/vectors.js";
import type { Random } from "./random.js";

/** The vectors of a set of documents, by row: `index.vectors()`, or a matrix. */
export interface DocumentVectors {
  readonly count: number;
  readonly dimension: number;
  /** Of an index; a matrix carries none. */
  readonly spaceId?: string;
  /** The row of the document with this id, undefined where there is none. */
  rowOf(id: string): number | undefined;
  /** Float32 (rows, dimension). */
  vectors(rows: readonly number[]): Float32Array;
  /** The rows nearest to a vector (dimension,), best first, at most k. */
  nearest(query: Float32Array, k: number): number[];
  /** The rows that an index finds by words and meaning together, best first, at most k; a matrix has no words. */
  ranked?(text: string, vector: Float32Array, k: number): Promise<RankedRows>;
}

/** Rows and their scores in 0..1, best first. */
export interface RankedRows {
  readonly rows: readonly number[];
  readonly scores: readonly number[];
}

/** Document vectors in a matrix: for indexes that are not ours. */
export class MatrixVectors implements DocumentVectors {
  readonly count: number;
  readonly dimension: number;
  readonly #data: Float32Array;
  readonly #rows: ReadonlyMap<string, number>;

  /** `vectors`: one a document, used at length 1; `ids`, where opened results are to be found. */
  constructor(vectors: readonly Float32Array[], ids: readonly string[] | null = null) {
    this.count = vectors.length;
    this.dimension = vectors[0]?.length ?? 0;
    if (ids !== null && ids.length !== vectors.length) {
      throw new InvalidInputError(
        `found ${ids.length} ids for ${vectors.length} document vectors, expected one each`,
      );
    }
    this.#data = new Float32Array(this.count * this.dimension);
    for (const [row, vector] of vectors.entries()) {
      this.#data.set(unitVector(vector, this.dimension, `vectors[${row}]`), row * this.dimension);
    }
    this.#rows = new Map((ids ?? []).map((id, row) => [id, row]));
  }

  rowOf(id: string): number | undefined {
    return this.#rows.get(id);
  }

  vectors(rows: readonly number[]): Float32Array {
    const found = new Float32Array(rows.length * this.dimension);
    for (const [i, row] of rows.entries()) {
      const start = row * this.dimension;
      found.set(this.#data.subarray(start, start + this.dimension), i * this.dimension);
    }
    return found;
  }

  nearest(query: Float32Array, k: number): number[] {
    const scores = new Float32Array(this.count);
    for (let row = 0; row < this.count; row++) {
      let sum = 0;
      for (const [i, value] of query.entries()) {
        sum += value * (this.#data[row * this.dimension + i] as number);
      }
      scores[row] = sum;
    }
    const rows = Array.from(scores.keys());
    rows.sort((left, right) => (scores[right] as number) - (scores[left] as number) || left - right);
    return rows.slice(0, k);
  }
}

/** `nearest` and up to `count` further rows below `size`, drawn from the rest evenly. */
export function withRandom(
  nearest: readonly number[],
  count: number,
  size: number,
  random: Random,
): number[] {
  const wanted = Math.min(count, size - nearest.length);
  const taken = new Set(nearest);
  // Enough that, whatever is struck out, enough are left.
  const drawn = random.sample(size, nearest.length + wanted).filter((row) => !taken.has(row));
  return [...nearest, ...drawn.slice(0, wanted)];
}
