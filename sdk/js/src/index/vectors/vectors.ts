/**
 * Document vectors in 8 bits, searched exactly; the file of Python's `vectors.py`.
 *
 * A 64-byte header, then a row a document: `dimension` codes of 8 bits and the scale, float32. A
 * row's vector is `(code - 128) * scale`; a document without a place by meaning has the scale 0 and codes
 * of 128, and no search by meaning finds it. A search multiplies the rows in place by the query in
 * 7 bits, in integers. How far that can be from the query in 24 bits is known for each query, so every
 * row that may be among the best is scored again with those, exactly.
 */
import { CorruptArtifactError, InvalidInputError, UnsupportedVersionError } from "../../errors.js";
import { kindOf } from "../../python_text.js";
import { candidates, type Ranking, ranked } from "./best.js";
import { crc32 } from "../../platform/crc32.js";
import { type IntegerMatrix, integerMatrix } from "./integer_product.js";
import { pairwiseSum, roundHalfEven } from "./numbers.js";

const MAGIC = "PQVECTOR";
const VERSION = 1;
const HEADER = 64;
const ZERO = 128;
const SCALE_BYTES = 4;
const LARGEST_CODE = 127;
const STEPS = 64; // of a query, on either side of zero
const FINE_STEPS = 2 ** 23; // of a query, on either side of zero; float32 has no more
const ROUNDING_SLACK = 1e-6; // of the scan's factors, in float32
const SUM_UNIT = 2 ** -32; // what 1 in a sum of vectors stands for: in whole numbers it depends on no order
const OWN_MEAN_ROWS = 16; // that move the mean of a language halfway from that of all to its own
const MOST_SCALE = 1.001 / LARGEST_CODE; // of a vector of length 1, however it was rounded

/** A vector as a caller gives it. */
export type VectorLike = Float32Array | Float64Array | readonly number[];

/** Bytes of a row. */
export function rowBytes(dimension: number): number {
  return dimension + SCALE_BYTES;
}

/** Bytes of a file of `count` rows. */
export function fileSize(dimension: number, count: number): number {
  return HEADER + count * rowBytes(dimension);
}

/**
 * The first `count` rows of a vector file, a view.
 * @throws CorruptArtifactError the header is damaged, or fewer rows are there
 * @throws UnsupportedVersionError a newer version of the format
 */
export function parseVectors(
  bytes: Uint8Array,
  dimension: number,
  count: number,
  file: string,
): Uint8Array {
  const header = bytes.subarray(0, HEADER);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (header.length < HEADER || String.fromCharCode(...header.subarray(0, 8)) !== MAGIC) {
    throw new CorruptArtifactError(`${file} is not a vector file: it does not begin with ${MAGIC}`);
  }
  if (view.getUint32(HEADER - 4, true) !== crc32(header.subarray(0, HEADER - 4))) {
    throw new CorruptArtifactError(`${file} has a damaged header; copy the index anew`);
  }
  const [version, found] = [view.getUint32(8, true), view.getUint32(12, true)];
  if (version > VERSION) {
    throw new UnsupportedVersionError(
      `${file} is of version ${version}, this release reads up to ${VERSION}; upgrade pocketquery`,
    );
  }
  if (found !== dimension) {
    throw new CorruptArtifactError(
      `${file} holds vectors of dimension ${found}, the index says ${dimension}; ` +
        "files of two indexes were mixed, copy it anew",
    );
  }
  const expected = fileSize(dimension, count);
  if (bytes.length < expected) {
    throw new CorruptArtifactError(
      `${file} has ${bytes.length} bytes, expected at least ${expected} for ${count} vectors of ` +
        `dimension ${dimension}: it is truncated. Build the index again or copy it anew`,
    );
  }
  return bytes.subarray(HEADER, expected);
}

/**
 * `vector` at length 1, float32 (dimension,).
 * @throws InvalidInputError another length, a value that is not finite, all zeros
 */
export function unitVector(vector: unknown, dimension: number, what: string): Float32Array {
  const isList = Array.isArray(vector) && vector.every((value) => typeof value === "number");
  if (!isList && !(vector instanceof Float32Array) && !(vector instanceof Float64Array)) {
    throw new InvalidInputError(
      `${what} is ${kindOf(vector)}, expected a Float32Array or a list of numbers`,
    );
  }
  const values = vector as ArrayLike<number>;
  if (values.length !== dimension) {
    throw new InvalidInputError(
      `${what} has ${values.length} numbers, expected ${dimension}, the index's dimension; ` +
        "encode with an encoder of the index's space",
    );
  }
  const norm = Math.sqrt(pairwiseSum(Float64Array.from(values, (value) => value * value)));
  if (!Number.isFinite(norm) || norm === 0) {
    throw new InvalidInputError(
      `${what} is all zeros or has a value that is not finite; expected finite numbers with a ` +
        "direction. Check the encoder that made it",
    );
  }
  return Float32Array.from(values, (value) => value / norm);
}

/** The row of a unit vector, float32 (d,): d codes and the scale. */
export function quantize(vector: Float32Array): Uint8Array {
  const scale = Math.fround(largest(vector) / LARGEST_CODE);
  const row = new Uint8Array(rowBytes(vector.length));
  for (const [i, value] of vector.entries()) {
    row[i] = roundHalfEven(Math.fround(value / scale)) + ZERO;
  }
  new DataView(row.buffer).setFloat32(vector.length, scale, true);
  return row;
}

/**
 * The scales of rows, float32 (n,).
 * @throws CorruptArtifactError one that no vector of length 1 has, or 0 in a row that has a vector
 */
export function scalesOf(rows: Uint8Array, dimension: number, file: string): Float32Array {
  const stride = rowBytes(dimension);
  const view = new DataView(rows.buffer, rows.byteOffset, rows.byteLength);
  return Float32Array.from({ length: rows.length / stride }, (_, row) => {
    const start = row * stride;
    const scale = view.getFloat32(start + dimension, true);
    const isMissing = scale === 0 && rows.subarray(start, start + dimension).every((code) => code === ZERO);
    if (isMissing || (scale > 0 && scale <= MOST_SCALE)) return scale;
    throw new CorruptArtifactError(
      `${file} was changed after it was written: row ${row} has the scale ${scale}, expected ` +
        `more than 0 and at most ${MOST_SCALE.toFixed(5)}. Copy the index anew or build it again`,
    );
  });
}

/** The row, of `bytes` bytes, of a document without a place by meaning. */
export function withoutVector(bytes: number): Uint8Array {
  return new Uint8Array(bytes).fill(ZERO, 0, bytes - SCALE_BYTES);
}

/** What cosines are held against, each float64 (d,). */
export interface Means {
  /** Of all rows that have a vector, and of one more that is 0, so that a document which is alone stands out from it. */
  readonly mean: Float64Array;
  /** By language, see {@link apartOf}. */
  readonly apart: ReadonlyMap<number, Float64Array>;
}

/**
 * How far the mean of each language is from that of all languages: the less, the fewer rows it has; of no language
 * where there is one alone.
 * @param sums by language: how many rows, and the sums of their m numbers
 * @returns float64 (m,)
 */
export function apartOf(sums: ReadonlyMap<number, Float64Array>): ReadonlyMap<number, Float64Array> {
  if (sums.size < 2) return new Map();
  const whole = new Float64Array(sums.values().next().value!.length);
  for (const sum of sums.values()) for (const [i, value] of sum.entries()) whole[i]! += value;
  const mean = whole.map((value) => value / Math.max(whole[0]!, 1));
  const apart = (count: number, value: number, i: number): number =>
    (value / Math.max(count, 1) - mean[i]!) * ownPart(count);
  return new Map(
    Array.from(sums, ([language, sum]) => [language, sum.map((value, i) => apart(sum[0]!, value, i)).subarray(1)]),
  );
}

/** How much what was counted in so many rows of a language says of it, from 0 to 1. */
export function ownPart(rows: number): number {
  return rows / (rows + OWN_MEAN_ROWS);
}

/** A query's vector, as rows are scored by it. */
export class QueryVector {
  /** Whole numbers from -2**23 to 2**23; times `fineStep` the vector. */
  readonly fine: Float64Array;
  readonly fineStep: number;
  /** What the scan multiplies: whole numbers from -64 to 64, each `step`. */
  readonly coarse: Int8Array;
  readonly step: number;
  /** Two rows whose coarse scores differ by more are in that order. */
  readonly slack: number;

  /** @param vector float32 (d,), of length 1 */
  constructor(vector: Float32Array) {
    const most = Math.max(largest(vector), 1e-30);
    this.fineStep = most / FINE_STEPS;
    this.fine = Float64Array.from(vector, (value) => roundHalfEven(value / this.fineStep));
    this.step = Math.fround(most / STEPS);
    this.coarse = Int8Array.from(vector, (value) => roundHalfEven(Math.fround(value / this.step)));
    const leftOut = this.fine.map((value, i) => (value * this.fineStep - this.coarse[i]! * this.step) ** 2);
    const longest = 1.001 + Math.sqrt(vector.length) / 254; // each number is rounded by half a step
    this.slack = 2 * (Math.sqrt(pairwiseSum(leftOut)) * longest + ROUNDING_SLACK);
  }

  /** The inner product with a vector, float64 (d,). */
  cosine(vector: Float64Array): number {
    return pairwiseSum(this.fine.map((value, i) => value * vector[i]!)) * this.fineStep;
  }
}

/** Rows of vectors, to be searched; rows can be added. */
export class Vectors {
  private readonly matrix: IntegerMatrix;
  private scales = new Float32Array(0);
  private count = 0;

  /** @param simd false keeps to typed arrays, for tests */
  constructor(
    readonly dimension: number,
    simd = true,
  ) {
    this.matrix = integerMatrix(rowBytes(dimension), simd);
  }

  /** Rows. */
  get length(): number {
    return this.count;
  }

  /**
   * Add rows as {@link quantize} makes them.
   * @throws CorruptArtifactError a scale is no scale; nothing is added
   */
  append(rows: Uint8Array, file: string): void {
    const some = scalesOf(rows, this.dimension, file);
    const count = this.count + some.length;
    const scales = count > this.scales.length ? new Float32Array(roomFor(count, this.count)) : this.scales;
    if (scales !== this.scales) scales.set(this.scales);
    scales.set(some, this.count);
    this.matrix.append(rows);
    this.scales = scales;
    this.count = count;
  }

  /**
   * The `k` nearest rows, best first.
   * @param allowed 1 where a row may be found, if it has a vector; undefined for all
   */
  search(query: QueryVector, k: number, allowed?: Uint8Array): Ranking {
    const scores = this.scores(query);
    for (let row = 0; row < scores.length; row++) if (!this.isPlaced(row)) scores[row] = -Infinity;
    const rows = candidates(scores, k, query.slack, allowed);
    return ranked(rows, this.cosines(query, rows), k);
  }

  /** Whether a row has a vector. */
  isPlaced(row: number): boolean {
    return this.scales[row]! > 0;
  }

  /** The cosines of `rows`, float64 (m,), 0 where a row has no vector: exact, as their sums are of whole numbers. */
  cosines({ fine, fineStep }: QueryVector, rows: Uint32Array): Float64Array {
    const codes = this.matrix.rows;
    const stride = rowBytes(this.dimension);
    return Float64Array.from(rows, (row) => {
      let sum = 0;
      for (let i = 0; i < fine.length; i++) sum += (codes[row * stride + i]! - ZERO) * fine[i]!;
      return sum * this.scales[row]! * fineStep;
    });
  }

  /**
   * The mean vector of all rows that have one, and of each language's.
   * @param languageOf the number of a row's, see languages.ts
   * @param gone 1 where a row does not count; undefined for none
   */
  means(languageOf: (row: number) => number, gone?: Uint8Array): Means {
    const [codes, stride] = [this.matrix.rows, rowBytes(this.dimension)];
    const sums = new Map<number, Float64Array>(); // the number of rows, and the sum of their vectors
    const sumOf = (language: number): Float64Array => {
      const sum = sums.get(language) ?? new Float64Array(this.dimension + 1);
      sums.set(language, sum);
      return sum;
    };
    for (let row = 0; row < this.count; row++) {
      if (gone?.[row] || !this.isPlaced(row)) continue;
      const sum = sumOf(languageOf(row));
      const weight = roundHalfEven(this.scales[row]! / SUM_UNIT);
      sum[0]!++;
      for (let i = 0; i < this.dimension; i++) sum[i + 1] = sum[i + 1]! + weight * (codes[row * stride + i]! - ZERO);
    }
    const [mean, named] = [new Float64Array(this.dimension + 1), new Map<number, Float64Array>()];
    for (const [language, sum] of [...sums].sort(([one], [other]) => one - other)) {
      for (let i = 1; i < sum.length; i++) sum[i]! *= SUM_UNIT;
      for (const [i, value] of sum.entries()) mean[i]! += value;
      if (language) named.set(language, sum);
    }
    return { mean: mean.subarray(1).map((value) => value / (mean[0]! + 1)), apart: apartOf(named) };
  }

  /** All rows as {@link append} took them; a view that is valid until rows are added. */
  get bytes(): Uint8Array {
    return this.matrix.rows;
  }

  /** The vectors of `rows`, float32 (m, d). */
  floats(rows: readonly number[]): Float32Array {
    const codes = this.matrix.rows;
    const { dimension } = this;
    const found = new Float32Array(rows.length * dimension);
    for (const [i, row] of rows.entries()) {
      const start = row * rowBytes(dimension);
      for (let j = 0; j < dimension; j++) {
        found[i * dimension + j] = (codes[start + j]! - ZERO) * this.scales[row]!;
      }
    }
    return found;
  }

  /** Every row's cosine, true to half of the query's slack, float64 (n,); 0 where a row has no vector. */
  scores({ coarse, step }: QueryVector): Float64Array {
    const bias = ZERO * coarse.reduce((sum, code) => sum + code, 0);
    const products = this.matrix.products(coarse);
    const scores = new Float64Array(this.count);
    for (let row = 0; row < scores.length; row++) {
      scores[row] = (products[row]! - bias) * Math.fround(this.scales[row]! * step);
    }
    return scores;
  }
}

/** Twice the room wherever it runs out, so that adding one by one copies each row few times. */
function roomFor(count: number, before: number): number {
  return Math.max(count, 2 * before);
}

function largest(vector: Float32Array): number {
  let most = 0;
  for (const value of vector) most = Math.max(most, Math.abs(value));
  return most;
}
