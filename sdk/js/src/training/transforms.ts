/**
 * What is done to a change before it leaves the device: Python's `client/transforms.py`, the same
 * bytes to the last bit. So norms are summed as numpy sums (pairwise) and then exactly.
 */

import { fromEnd } from "../platform/lists.js";
import type { AdapterTensors } from "../bundle/adapter_tensors.js";
import type { RawTensor } from "../bundle/safetensors.js";
import { InvalidInputError } from "../errors.js";
import { byCodePoint, repr } from "../python_text.js";

export const SCALES = "__scales__";
const LARGEST_CODE = 127;
// A float32 product is off by a relative 6e-8; what is scaled to a bound is to stay within it.
const WITHIN = 1 - 1e-6;
const BLOCK = 128; // values that numpy sums without splitting
const LANES = 8;

/** Values by name, in float64 where a sum of two float32 tensors is to lose nothing. */
export type Values = ReadonlyMap<
  string,
  { readonly shape: readonly number[]; readonly data: Float32Array | Float64Array }
>;

/** The L2 norm over all values of all tensors; their order does not matter. */
export function normOf(tensors: Values): number {
  const squares = [...tensors.values()].map(({ data }) => {
    return pairwise(Float64Array.from(data, (value) => value * value));
  });
  return Math.sqrt(exactSum(squares));
}

/**
 * Float32 tensors of L2 norm at most `norm`, scaled together, so that their direction stays.
 *
 * Throws InvalidInputError: `norm` is no finite number above 0; a value is NaN or infinite.
 */
export function clipped(tensors: Values, norm: number): AdapterTensors {
  if (!(Number.isFinite(norm) && norm > 0)) {
    throw new InvalidInputError(
      `clip_norm is ${norm}, expected a finite number above 0 (the largest L2 norm of a change)`,
    );
  }
  for (const [name, { data }] of tensors) {
    if (!data.every(Number.isFinite)) {
      throw new InvalidInputError(
        `${repr(name)} holds NaN or infinity, expected finite numbers; the training that made it ` +
          "diverged. Discard it",
      );
    }
  }
  const total = normOf(tensors);
  const factor = total <= norm ? 1 : (norm / total) * WITHIN;
  return new Map(
    [...tensors].map(([name, { shape, data }]) => {
      // numpy multiplies float32 by a float32 factor, float64 by one of float64.
      const by = data instanceof Float32Array ? Math.fround(factor) : factor;
      return [name, { shape, data: Float32Array.from(data, (value) => value * by) }];
    }),
  );
}

/**
 * Each tensor as signed 8-bit codes, and one float32 scale of each in the order of their names:
 * `max|v| / 127`, rounded to even. What comes out on the server is never longer than what goes in.
 */
export function compressed(tensors: AdapterTensors): Map<string, RawTensor> {
  const names = [...tensors.keys()].sort(byCodePoint);
  const values = names.map((name) => (tensors.get(name) as { data: Float32Array }).data);
  let scales = Float32Array.from(values, (data) => largest(data) / LARGEST_CODE);
  const codes = values.map((data, i) => codesOf(data, scales[i] as number));
  const decoded = new Map(
    names.map((name, i) => [name, { shape: [], data: decode(codes[i] as Int8Array, scales[i] as number) }]),
  );
  const [before, after] = [normOf(tensors), normOf(decoded)];
  if (after > before) {
    const factor = Math.fround((before / after) * WITHIN); // rounding went up more than down
    scales = scales.map((scale) => scale * factor);
  }
  const payload = new Map<string, RawTensor>();
  for (const [i, name] of names.entries()) {
    const { shape } = tensors.get(name) as { shape: readonly number[] };
    payload.set(name, { dtype: "I8", shape, bytes: bytesOf(codes[i] as Int8Array) });
  }
  payload.set(SCALES, { dtype: "F32", shape: [names.length], bytes: bytesOf(scales) });
  return payload;
}

/** What the server makes of `compressed`: float32 tensors. */
export function decompressed(payload: ReadonlyMap<string, RawTensor>): AdapterTensors {
  const names = [...payload.keys()].filter((name) => name !== SCALES).sort(byCodePoint);
  const scales = new Float32Array((payload.get(SCALES) as RawTensor).bytes.buffer);
  return new Map(
    names.map((name, i) => {
      const { shape, bytes } = payload.get(name) as RawTensor;
      return [name, { shape, data: decode(new Int8Array(bytes.buffer), scales[i] as number) }];
    }),
  );
}

/** `value` as bytes of its own. */
export function bytesOf(value: Int8Array | Float32Array): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
}

function largest(data: Float32Array): number {
  return data.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}

function codesOf(data: Float32Array, scale: number): Int8Array {
  if (scale === 0) return new Int8Array(data.length); // zeros, or too small for a step of float32
  return Int8Array.from(data, (value) => {
    return Math.min(LARGEST_CODE, Math.max(-LARGEST_CODE, roundedToEven(value / scale)));
  });
}

function decode(codes: Int8Array, scale: number): Float32Array {
  return Float32Array.from(codes, (code) => code * scale);
}

function roundedToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}

/** The sum of `values` in numpy's order, eight at a time and halves of halves. */
export function pairwise(values: Float64Array): number {
  const count = values.length;
  if (count > BLOCK) {
    const half = Math.floor(count / 2 / LANES) * LANES;
    return pairwise(values.subarray(0, half)) + pairwise(values.subarray(half));
  }
  const at = (i: number): number => values[i] as number;
  const whole = count < LANES ? 0 : count - (count % LANES);
  let sum = 0;
  if (whole > 0) {
    const lanes = Array.from(values.subarray(0, LANES));
    for (let i = LANES; i < whole; i++) lanes[i % LANES] = (lanes[i % LANES] as number) + at(i);
    const [a, b, c, d, e, f, g, h] = lanes as [
      number, number, number, number, number, number, number, number,
    ];
    sum = a + b + (c + d) + (e + f + (g + h));
  }
  for (let i = whole; i < count; i++) sum += at(i);
  return sum;
}

/**
 * The sum of finite numbers above 0, rounded once (Shewchuk, "Adaptive Precision Floating-Point
 * Arithmetic", 1997), as Python's `math.fsum`.
 */
function exactSum(values: readonly number[]): number {
  const partials: number[] = []; // they do not overlap, and rise
  for (let value of values) {
    let kept = 0;
    for (let other of partials) {
      if (Math.abs(value) < Math.abs(other)) [value, other] = [other, value];
      const high = value + other;
      const low = other - (high - value);
      if (low !== 0) partials[kept++] = low;
      value = high;
    }
    partials.length = kept;
    partials.push(value);
  }
  let high = partials.pop() ?? 0;
  let low = 0;
  while (partials.length > 0 && low === 0) {
    const [x, y] = [high, partials.pop() as number];
    high = x + y;
    low = y - (high - x);
  }
  // What is cut off decides where two numbers are equally near.
  const next = fromEnd(partials) ?? 0;
  if ((low < 0 && next < 0) || (low > 0 && next > 0)) {
    const doubled = low * 2;
    const moved = high + doubled;
    if (doubled === moved - high) high = moved;
  }
  return high;
}
