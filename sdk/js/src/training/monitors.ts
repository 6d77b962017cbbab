/**
 * Is the encoder still sound? Figures of its query vectors, and the limits that end a run: Python's
 * `client/training/monitors.py`.
 *
 * The spread (`stdRatio`) stays near 1 while vectors fall into a few dimensions, the effective rank
 * stays high while they shrink into one point, and the drift sees a space that rotates away from the
 * index. All are compared with the shipped encoder's for the same queries.
 */

import { InvalidInputError } from "../errors.js";
import { checkOptions } from "../texts.js";

/** When a run is ended. */
export interface MonitorLimits {
  /** Least effective rank, as a share of the shipped encoder's. */
  readonly rankKept: number;
  /** Least `stdRatio`, as a share of the shipped encoder's. */
  readonly spreadKept: number;
  /** Largest mean of 1 - cos to the shipped encoder's vectors. */
  readonly drift: number;
}

/** The figures of one set of queries; the shares are of the shipped encoder's. */
export interface Health {
  readonly effectiveRank: number;
  readonly stdRatio: number;
  readonly drift: number;
  readonly rankKept: number;
  readonly spreadKept: number;
}

/** Vectors one after the other, (n, d). */
export interface Matrix {
  readonly data: Float32Array;
  readonly columns: number;
}

/**
 * exp(-sum p log p), p the normalised singular values of the centred vectors: from 1 (a line, or a
 * single point) to the smaller of n - 1 and d. Roy and Vetterli, "The effective rank", section 2.
 */
export function effectiveRank(vectors: Matrix): number {
  const values = singularValues(centred(vectors));
  const sum = values.reduce((total, value) => total + value, 0);
  if (sum <= 1e-12) return 1;
  const shares = values.map((value) => value / sum).filter((share) => share > 0);
  return Math.exp(-shares.reduce((total, share) => total + share * Math.log(share), 0));
}

/** sqrt(d) times the mean standard deviation of a coordinate, of L2-normalised vectors. */
export function stdRatio(vectors: Matrix): number {
  const rows = centred(vectors);
  const { columns } = vectors;
  let total = 0;
  for (let column = 0; column < columns; column++) {
    const squares = rows.reduce((sum, row) => sum + (row[column] as number) ** 2, 0);
    total += Math.sqrt(squares / rows.length);
  }
  return (Math.sqrt(columns) * total) / columns;
}

/** The figures of `vectors`, beside the `shipped` encoder's; NaN where a number is not finite. */
export function measure(vectors: Matrix, shipped: Matrix): Health {
  const { NaN: none } = Number;
  if (!vectors.data.every(Number.isFinite)) {
    return { effectiveRank: none, stdRatio: none, drift: none, rankKept: none, spreadKept: none };
  }
  const [rank, spread] = [effectiveRank(vectors), stdRatio(vectors)];
  let cosines = 0;
  for (const [i, value] of vectors.data.entries()) cosines += value * (shipped.data[i] as number);
  return {
    effectiveRank: rank,
    stdRatio: spread,
    drift: 1 - cosines / (vectors.data.length / vectors.columns),
    rankKept: share(rank, effectiveRank(shipped)),
    spreadKept: share(spread, stdRatio(shipped)),
  };
}

/** What is wrong, as a sentence; null where nothing is. */
export function complaint(health: Health, limits: MonitorLimits): string | null {
  if (![health.effectiveRank, health.stdRatio, health.drift].every(Number.isFinite)) {
    return "the vectors are not finite";
  }
  if (health.drift > limits.drift) {
    return (
      `drift: queries moved ${health.drift.toFixed(3)} (mean of 1 - cos) from the shipped ` +
      `encoder, at most ${limits.drift} is allowed`
    );
  }
  if (health.spreadKept < limits.spreadKept) {
    return (
      `collapse: the spread fell to ${health.spreadKept.toFixed(3)} of the shipped encoder's, at ` +
      `least ${limits.spreadKept} is required`
    );
  }
  if (health.rankKept < limits.rankKept) {
    return (
      `collapse: the effective rank fell to ${health.rankKept.toFixed(3)} of the shipped ` +
      `encoder's, at least ${limits.rankKept} is required`
    );
  }
  return null;
}

/** Throws InvalidInputError where a limit is out of range. */
export function checkLimits(limits: MonitorLimits): void {
  checkOptions(limits);
  const bounds = { rankKept: 1, spreadKept: 1, drift: 2 };
  for (const [name, most] of Object.entries(bounds)) {
    const value = limits[name as keyof MonitorLimits];
    if (typeof value !== "number" || !(value >= 0 && value <= most) || (name === "drift" && value === 0)) {
      const least = name === "drift" ? "above" : "from";
      throw new InvalidInputError(
        `limits.${name} is ${String(value)}, expected a number ${least} 0 to ${most}`,
      );
    }
  }
}

/** One query, or several alike, spread nowhere whoever encodes them: nothing to keep. */
function share(found: number, reference: number): number {
  return reference > 1e-6 ? found / reference : 1;
}

function centred({ data, columns }: Matrix): Float64Array[] {
  const count = data.length / columns;
  const mean = new Float64Array(columns);
  for (const [i, value] of data.entries()) mean[i % columns]! += value / count;
  return Array.from({ length: count }, (_, row) =>
    Float64Array.from(mean, (middle, column) => (data[row * columns + column] as number) - middle),
  );
}

/**
 * One-sided Jacobi (Hestenes, 1958): rotate pairs of rows until all are orthogonal; their lengths
 * are the singular values, accurate in the small ones, too.
 */
function singularValues(given: Float64Array[]): number[] {
  const columns = given[0]?.length ?? 0;
  const rows = given.length <= columns ? given : transposed(given, columns);
  for (let sweep = 0; sweep < 60; sweep++) {
    let rotated = false;
    for (let p = 0; p < rows.length; p++) {
      for (let q = p + 1; q < rows.length; q++) {
        rotated = orthogonalise(rows[p] as Float64Array, rows[q] as Float64Array) || rotated;
      }
    }
    if (!rotated) break;
  }
  return rows.map((row) => Math.sqrt(dot(row, row)));
}

/** Rotates two rows until they are orthogonal; whether they were not. */
function orthogonalise(left: Float64Array, right: Float64Array): boolean {
  const [a, b, c] = [dot(left, left), dot(right, right), dot(left, right)];
  if (c === 0 || Math.abs(c) <= 1e-14 * Math.sqrt(a * b)) return false;
  const slope = (b - a) / (2 * c);
  const tangent = Math.sign(slope || 1) / (Math.abs(slope) + Math.hypot(1, slope));
  const cosine = 1 / Math.hypot(1, tangent);
  const sine = cosine * tangent;
  for (let i = 0; i < left.length; i++) {
    const [x, y] = [left[i] as number, right[i] as number];
    left[i] = cosine * x - sine * y;
    right[i] = sine * x + cosine * y;
  }
  return true;
}

function transposed(rows: readonly Float64Array[], columns: number): Float64Array[] {
  return Array.from({ length: columns }, (_, column) =>
    Float64Array.from(rows, (row) => row[column] as number),
  );
}

function dot(left: Float64Array, right: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < left.length; i++) sum += (left[i] as number) * (right[i] as number);
  return sum;
}
