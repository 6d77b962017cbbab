/**
 * The kernels in plain JavaScript, for engines without WebAssembly (React Native's Hermes).
 *
 * Products of integers are the same to the bit; the rest is computed in float64 and stored in float32, and so
 * differs from the WebAssembly by rounding. scripts/runtime/kernels.ts says what each does.
 */

import { packedProducts, packRows, wordsOf } from "../platform/packed_rows.js";
import type { GrowingMemory, Kernels } from "./memory.js";

const PAGE = 65536;
const GROWTH = 1.5;
const TO_EVEN = 1.5 * 2 ** 52; // added and taken off, it leaves a whole number, of two as near the even one
const HALF = 128;

/** Memory that is copied where it grows. */
class PlainMemory implements GrowingMemory {
  buffer = new ArrayBuffer(PAGE);
  bytes = new Uint8Array(this.buffer);
  floats = new Float32Array(this.buffer);
  integers = new Int32Array(this.buffer);

  grow(pages: number): number {
    const before = this.bytes;
    this.buffer = new ArrayBuffer(Math.ceil(Math.max(before.length + pages * PAGE, GROWTH * before.length) / PAGE) * PAGE);
    this.bytes = new Uint8Array(this.buffer);
    this.floats = new Float32Array(this.buffer);
    this.integers = new Int32Array(this.buffer);
    this.bytes.set(before);
    return before.length / PAGE;
  }
}

/** Kernels with a memory of their own. */
export function plainKernels(): Kernels {
  const memory = new PlainMemory();
  const packed = new Map<number, Int32Array>(); // weights in words, by their address

  const weightsAt = (address: number, columns: number, padded: number): Int32Array => {
    let words = packed.get(address);
    if (words === undefined) {
      words = new Int32Array(wordsOf(columns, padded));
      packRows(memory.bytes.subarray(address, address + columns * padded), padded, 0, columns, words, true);
      packed.set(address, words);
    }
    return words;
  };

  return {
    memory,
    add(a, b, to, rows, width) {
      const { floats } = memory;
      [a, b, to] = [a / 4, b / 4, to / 4];
      for (let row = 0; row < rows; row++) for (let i = 0; i < width; i++) floats[to++] = floats[a++]! + floats[b + i]!;
    },
    multiply(a, b, to, rows, width) {
      const { floats } = memory;
      [a, b, to] = [a / 4, b / 4, to / 4];
      for (let row = 0; row < rows; row++) for (let i = 0; i < width; i++) floats[to++] = floats[a++]! * floats[b + i]!;
    },
    toFloats(from, to, count) {
      const { floats, integers } = memory;
      for (let i = 0; i < count; i++) floats[to / 4 + i] = integers[from / 4 + i]!;
    },
    quantize(from, count, codes, scaleTo, zeroPointTo) {
      const { bytes, floats } = memory;
      const values = floats.subarray(from / 4, from / 4 + count);
      let [low, high] = [0, 0];
      for (const value of values) {
        if (value < low) low = value;
        else if (value > high) high = value;
      }
      const scale = low === high ? 1 : Math.fround(Math.fround(high - low) / 255);
      const zeroPoint = Math.min(Math.max(Math.fround(-low / scale), 0), 255) + TO_EVEN - TO_EVEN;
      floats[scaleTo / 4] = scale;
      bytes[zeroPointTo] = zeroPoint;
      const fround = Math.fround;
      for (const value of values) {
        const code = fround(value / scale) + TO_EVEN - TO_EVEN + zeroPoint;
        bytes[codes++] = code < 0 ? 0 : code > 255 ? 255 : code;
      }
    },
    integerProducts(codes, zeroPoint, rows, depth, weights, zeroPoints, columns, padded, _, __, to) {
      const words = weightsAt(weights, columns, padded);
      const { bytes, integers } = memory;
      for (let row = 0; row < rows; row++) {
        const vector: number[] = [];
        let sum = 0;
        for (let i = 0; i < depth; i++) sum += vector[i] = bytes[codes++]! - zeroPoint;
        const products = packedProducts(words, padded, vector);
        const start = to / 4 + row * columns;
        for (let column = 0; column < columns; column++) {
          integers[start + column] = products[column]! - (HALF + integers[zeroPoints / 4 + column]!) * sum;
        }
      }
    },
    dots(left, right, to, rows, depth, columns, alpha) {
      const { floats } = memory;
      for (let row = 0; row < rows; row++) {
        for (let column = 0; column < columns; column++) {
          floats[to / 4 + row * columns + column] = alpha * dot(floats, left / 4 + row * depth, right / 4 + column * depth, depth);
        }
      }
    },
    sums(left, right, to, rows, depth, columns) {
      const { floats } = memory;
      for (let row = 0; row < rows; row++) {
        for (let column = 0; column < columns; column++) {
          let [sum, at] = [0, right / 4 + column];
          for (let i = 0; i < depth; i++, at += columns) sum += floats[left / 4 + row * depth + i]! * floats[at]!;
          floats[to / 4 + row * columns + column] = sum;
        }
      }
    },
    layerNormalization(from, scale, bias, to, rows, width, epsilon) {
      const { floats } = memory;
      [scale, bias] = [scale / 4, bias / 4];
      for (let row = 0; row < rows; row++) {
        const first = from / 4 + row * width;
        let mean = 0;
        for (let i = 0; i < width; i++) mean += floats[first + i]! / width;
        let square = 0;
        for (let i = 0; i < width; i++) square += (floats[first + i]! - mean) ** 2;
        const factor = 1 / Math.sqrt(square / width + epsilon);
        for (let i = 0; i < width; i++) {
          floats[to / 4 + row * width + i] = (floats[first + i]! - mean) * factor * floats[scale + i]! + floats[bias + i]!;
        }
      }
    },
    gelu(from, to, count) {
      const { floats } = memory;
      for (let i = 0; i < count; i++) {
        const value = floats[from / 4 + i]!;
        floats[to / 4 + i] = (value / 2) * (1 + errorFunction(value * Math.SQRT1_2));
      }
    },
    attention(query, key, value, shown, scores, to, length, places, width, heads, scale) {
      const { floats } = memory;
      const size = width / heads;
      const [values, out] = [value / 4, to / 4];
      for (let head = 0; head < heads; head++) {
        for (let row = 0; row < length; row++) {
          const mine = row * width + head * size;
          for (let place = 0; place < places; place++) {
            floats[scores / 4 + place] = scale * dot(floats, query / 4 + mine, key / 4 + place * width + head * size, size);
          }
          soften(floats, scores / 4, shown / 4, places);
          for (let i = 0; i < size; i++) {
            let sum = 0;
            for (let place = 0; place < places; place++) {
              sum += floats[scores / 4 + place]! * floats[values + place * width + head * size + i]!;
            }
            floats[out + mine + i] = sum;
          }
        }
      }
    },
  };
}

function dot(floats: Float32Array, a: number, b: number, count: number): number {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += floats[a++]! * floats[b++]!;
  return sum;
}

/** The softmax of scores + shown, in the scores' place. */
function soften(floats: Float32Array, scores: number, shown: number, places: number): void {
  let [most, sum] = [-Infinity, 0];
  for (let i = 0; i < places; i++) most = Math.max(most, (floats[scores + i] = floats[scores + i]! + floats[shown + i]!));
  for (let i = 0; i < places; i++) sum += floats[scores + i] = Math.exp(floats[scores + i]! - most);
  for (let i = 0; i < places; i++) floats[scores + i] = floats[scores + i]! / sum;
}

/**
 * Within 1.5e-7.
 *
 * Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
 */
function errorFunction(value: number): number {
  const x = Math.abs(value);
  const t = 1 / (1 + x * 0.3275911);
  const sum = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  const found = 1 - sum * Math.exp(-x * x);
  return value < 0 ? -found : found;
}
