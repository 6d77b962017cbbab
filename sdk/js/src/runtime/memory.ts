/** Arrays of numbers in the kernels' memory, where a graph's nodes find and leave them. */

import { MissingExtraError } from "../errors.js";
import { grow, unpacked } from "../wasm.js";
import { KERNELS } from "./kernels_wasm.js";

/** How numbers look from JavaScript; int64 is held in float64, which is exact up to 2^53. */
export type Numbers = Float32Array | Float64Array | Int32Array | Int8Array | Uint8Array;

/** An element type by its number in ONNX (TensorProto.DataType). */
export const FLOAT = 1;
export const UINT8 = 2;
export const INT8 = 3;
export const INT32 = 6;
export const INT64 = 7;
export const BOOL = 9;

interface NumbersConstructor {
  new (buffer: ArrayBufferLike, address: number, length: number): Numbers;
  readonly BYTES_PER_ELEMENT: number;
}

const VIEWS: Readonly<Record<number, NumbersConstructor>> = {
  [FLOAT]: Float32Array,
  [UINT8]: Uint8Array,
  [INT8]: Int8Array,
  [INT32]: Int32Array,
  [INT64]: Float64Array,
  [BOOL]: Uint8Array,
};

/** Row-major numbers at an address. */
export interface NdArray {
  readonly type: number;
  readonly shape: readonly number[];
  readonly address: number;
}

/** What the arrays lie in: WebAssembly's, or plain_kernels.ts's. */
export interface GrowingMemory {
  readonly buffer: ArrayBufferLike;
  /** By pages of 64 KB. */
  grow(pages: number): number;
}

/** scripts/runtime/kernels.ts says what they do; all numbers are addresses but counts and factors. */
export interface Kernels {
  readonly memory: GrowingMemory;
  add(a: number, b: number, to: number, rows: number, width: number): void;
  multiply(a: number, b: number, to: number, rows: number, width: number): void;
  toFloats(from: number, to: number, count: number): void;
  quantize(from: number, count: number, codes: number, scale: number, zeroPoint: number): void;
  integerProducts(
    codes: number, zeroPoint: number, rows: number, depth: number, weights: number, zeroPoints: number,
    columns: number, padded: number, centred: number, sums: number, to: number,
  ): void;
  dots(left: number, right: number, to: number, rows: number, depth: number, columns: number, alpha: number): void;
  sums(left: number, right: number, to: number, rows: number, depth: number, columns: number): void;
  layerNormalization(
    from: number, scale: number, bias: number, to: number, rows: number, width: number, epsilon: number,
  ): void;
  gelu(from: number, to: number, count: number): void;
  attention(
    query: number, key: number, value: number, shown: number, scores: number, to: number, length: number,
    places: number, width: number, heads: number, scale: number,
  ): void;
}

const FIRST = 1024; // what the compiler may use for itself lies before
const ALIGNMENT = 16; // room for whole SIMD vectors

const MOST = 2 ** 31; // numbers of an array

let compiled: Promise<WebAssembly.Module> | undefined;

/**
 * A memory that grows. What is allocated before `begin` stays; what comes after goes with the next
 * `begin`, and room that was given back is used again.
 *
 * A view is valid until something is allocated.
 */
export class Memory {
  #end = FIRST;
  #kept = FIRST;
  #free = new Map<number, number[]>(); // addresses by bytes

  constructor(readonly kernels: Kernels) {}

  /** Throws MissingExtraError: there is no WebAssembly with SIMD, or the page's policy forbids it. */
  static async open(): Promise<Memory> {
    try {
      // Not at once: browsers before 2023 compile no more than 4 KB so on a page's own thread.
      compiled ??= WebAssembly.compile(unpacked(KERNELS));
      const { exports } = await WebAssembly.instantiate(await compiled, { env: { abort: () => undefined } });
      return new Memory(exports as unknown as Kernels);
    } catch (error) {
      compiled = undefined;
      throw new MissingExtraError(
        "WebAssembly with SIMD is not there or is switched off, and pocketquery/runtime needs it; use a newer browser " +
          "(React Native: pocketquery/react-native), and where the page has a Content-Security-Policy let script-src have 'wasm-unsafe-eval' " +
          `(${(error as Error).message})`,
        { cause: error },
      );
    }
  }

  /** What is there now stays, and the rest is free. */
  keep(): void {
    this.#kept = this.#end;
  }

  /** Whatever was allocated since `keep` goes. */
  begin(): void {
    this.#end = this.#kept;
    this.#free.clear();
  }

  /** All that is there stays, whatever `begin` is called meanwhile, until what is returned is called. */
  hold(): () => void {
    const [kept, end, free] = [this.#kept, this.#end, this.#free];
    this.#kept = end;
    this.#free = new Map();
    return () => {
      [this.#kept, this.#end, this.#free] = [kept, end, free];
    };
  }

  /** Room for an array; what lies in it is not said. Throws ArtifactError: there is none. */
  allocate(type: number, shape: readonly number[]): NdArray {
    const bytes = roomOf(type, shape);
    const again = this.#free.get(bytes)?.pop();
    if (again !== undefined) return { type, shape, address: again };
    const address = this.#end;
    this.#end += bytes;
    const missing = this.#end - this.kernels.memory.buffer.byteLength;
    if (missing > 0) {
      grow(this.kernels.memory, missing, "an encoder; a smaller one, or shorter texts, are needed here");
    }
    return { type, shape, address };
  }

  /** An array of numbers that are known. */
  store(type: number, shape: readonly number[], numbers: ArrayLike<number>): NdArray {
    const array = this.allocate(type, shape);
    this.view(array).set(numbers);
    return array;
  }

  /** The room of an array that nobody needs any more. */
  release({ type, shape, address }: NdArray): void {
    if (address < this.#kept) return; // it stays
    const bytes = roomOf(type, shape);
    const free = this.#free.get(bytes);
    if (free) free.push(address);
    else this.#free.set(bytes, [address]);
  }

  /** An array's numbers; writing to them changes it. */
  view({ type, shape, address }: NdArray): Numbers {
    return new (viewOf(type))(this.kernels.memory.buffer, address, sizeOf(shape));
  }

  /** An array's bytes. */
  bytes({ type, shape, address }: NdArray): Uint8Array {
    const length = sizeOf(shape) * viewOf(type).BYTES_PER_ELEMENT;
    return new Uint8Array(this.kernels.memory.buffer, address, length);
  }
}

/** Whether there are operators here for numbers of a type. */
export function isKnown(type: number): boolean {
  return type in VIEWS;
}

/** Bytes of a number. Throws TypeError: a type that no operator here knows. */
export function bytesOf(type: number): number {
  return viewOf(type).BYTES_PER_ELEMENT;
}

function viewOf(type: number): NumbersConstructor {
  const view = VIEWS[type];
  if (view === undefined) throw new TypeError(`numbers of ONNX's type ${type}`);
  return view;
}

/** Bytes of an array's room. Throws RangeError: a size that none can have. */
function roomOf(type: number, shape: readonly number[]): number {
  if (!shape.every((axis) => Number.isSafeInteger(axis) && axis >= 0) || !(sizeOf(shape) <= MOST)) {
    throw new RangeError(`an array of shape ${shown(shape)}`);
  }
  return Math.ceil((sizeOf(shape) * bytesOf(type)) / ALIGNMENT) * ALIGNMENT;
}

/** How many numbers an array of a shape has. */
export function sizeOf(shape: readonly number[]): number {
  let size = 1;
  for (const axis of shape) size *= axis;
  return size;
}

/** `axis` counted from the front. Throws RangeError: there is no such axis. */
export function axisOf(axis: number, rank: number): number {
  const counted = axis < 0 ? axis + rank : axis;
  if (counted >= 0 && counted < rank) return counted;
  throw new RangeError(`axis ${axis} of ${rank}`);
}

/** Which number, in an array that is walked by `strides`, stands at place `at` of `shape`. */
export function strided(shape: readonly number[], strides: readonly number[]): (at: number) => number {
  return (at) => {
    let place = 0;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      place += (at % shape[axis]!) * strides[axis]!;
      at = Math.floor(at / shape[axis]!);
    }
    return place;
  };
}

/** The strides of an array whose numbers lie one after the other. */
export function stridesOf(shape: readonly number[]): number[] {
  return shape.map((_, axis) => sizeOf(shape.slice(axis + 1)));
}

/** For people to read. */
export function shown(shape: readonly number[]): string {
  return `(${shape.join(", ")})`;
}
