/**
 * The 8-bit product of a matrix and a vector, exactly, as fast as the platform allows.
 *
 * 100,000 x 388 on one core: WebAssembly SIMD 5 to 7 ms, four rows at a time in typed arrays 40 to
 * 60, a plain loop 80 to 200, onnxruntime-web's MatMulInteger 150, onnxruntime-node's 24. SIMD
 * variants with two, four or eight rows at a time, or 16-bit sums, are no faster than the plain one.
 */
import { packedProducts, packRows, wordsOf } from "../../platform/packed_rows.js";
import { grow, unpacked } from "../../wasm.js";
import { INTEGER_PRODUCT } from "./integer_product_wasm.js";

const BLOCK = 16; // columns the kernel takes at once

/** Rows of unsigned 8-bit numbers, to be multiplied by a vector. Rows can be added. */
export interface IntegerMatrix {
  /** All rows, one after the other; a view that is valid until rows are added. */
  readonly rows: Uint8Array;

  /** Add rows, a whole number of them. */
  append(rows: Uint8Array): void;

  /**
   * The product of each row with `vector`, int32 (n,).
   * @param vector signed numbers, at most `stride` of them; what a row has beyond does not count
   * @returns valid until the next call
   */
  products(vector: Int8Array): Int32Array;
}

/**
 * An empty matrix.
 * @param stride bytes of a row
 * @param simd false keeps to typed arrays, for tests
 */
export function integerMatrix(stride: number, simd = true): IntegerMatrix {
  const kernel = simd ? instantiate() : undefined;
  return kernel ? new SimdMatrix(stride, kernel) : new PlainMatrix(stride);
}

interface Kernel {
  readonly memory: WebAssembly.Memory;
  products(
    row: number,
    stride: number,
    count: number,
    vector: number,
    blocks: number,
    out: number,
  ): void;
}

let compiled: WebAssembly.Module | undefined;

/** The kernel with a memory of its own; undefined where there is no WebAssembly or no SIMD. */
function instantiate(): Kernel | undefined {
  try {
    compiled ??= new WebAssembly.Module(unpacked(INTEGER_PRODUCT));
    return new WebAssembly.Instance(compiled).exports as unknown as Kernel;
  } catch {
    return undefined; // none there, too old for SIMD, or forbidden by the page's policy
  }
}

/** The memory holds the vector in 16 bits, the rows, and the products. */
class SimdMatrix implements IntegerMatrix {
  private readonly blocks: number;
  private readonly first: number;
  private count = 0;

  constructor(
    private readonly stride: number,
    private readonly kernel: Kernel,
  ) {
    this.blocks = Math.ceil(stride / BLOCK);
    this.first = this.blocks * BLOCK * 2;
  }

  get rows(): Uint8Array {
    return new Uint8Array(this.kernel.memory.buffer, this.first, this.count * this.stride);
  }

  append(rows: Uint8Array): void {
    const start = this.first + this.count * this.stride;
    const count = this.count + rows.length / this.stride;
    const needed = this.out(count) + 4 * count - this.kernel.memory.buffer.byteLength;
    if (needed > 0) grow(this.kernel.memory, needed, "vectors; a smaller index is needed here");
    new Uint8Array(this.kernel.memory.buffer).set(rows, start);
    this.count = count;
  }

  products(vector: Int8Array): Int32Array {
    const { memory } = this.kernel;
    const out = this.out(this.count);
    new Int16Array(memory.buffer, 0, this.blocks * BLOCK).fill(0).set(vector);
    if (this.count) {
      this.kernel.products(this.first, this.stride, this.count, 0, this.blocks, out);
    }
    return new Int32Array(memory.buffer, out, this.count);
  }

  /** Where the products of `count` rows begin: a block beyond the rows, on a multiple of it. */
  private out(count: number): number {
    return Math.ceil((this.first + count * this.stride) / BLOCK) * BLOCK + BLOCK;
  }
}

/** The rows lie in words, too, which take as much room again: see packed_rows.ts. */
class PlainMatrix implements IntegerMatrix {
  private bytes = new Uint8Array(0);
  private count = 0;
  private words = new Int32Array(0);
  private packed = 0; // rows

  constructor(private readonly stride: number) {}

  get rows(): Uint8Array {
    return this.bytes.subarray(0, this.count * this.stride);
  }

  append(rows: Uint8Array): void {
    const used = this.count * this.stride;
    if (used + rows.length > this.bytes.length) {
      const larger = new Uint8Array(Math.max(used + rows.length, this.count ? 2 * used : 0));
      larger.set(this.rows);
      this.bytes = larger;
    }
    this.bytes.set(rows, used);
    this.count += rows.length / this.stride;
  }

  products(vector: Int8Array): Int32Array {
    const { count, stride } = this;
    const length = wordsOf(count, stride);
    if (length > this.words.length) {
      const larger = new Int32Array(wordsOf(this.bytes.length / stride, stride));
      larger.set(this.words);
      this.words = larger;
    }
    if (this.packed < count) packRows(this.rows, stride, this.packed, count, this.words);
    this.packed = count;
    return packedProducts(this.words.subarray(0, length), stride, vector).subarray(0, count);
  }
}
