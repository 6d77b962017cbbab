/** The tensors of an adapter, as they are bound to an encoder. */

import { CorruptArtifactError } from "../errors.js";
import { widen } from "./float16.js";
import { repr, show } from "../python_text.js";
import type { RawTensor } from "./safetensors.js";

/** One tensor: float32 values in row-major order. */
export interface AdapterTensor {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

/** Adapter tensors by the name of the graph's input. */
export type AdapterTensors = ReadonlyMap<string, AdapterTensor>;

const NUMPY_NAMES: Readonly<Record<string, string>> = { F: "float", I: "int", U: "uint", B: "bool" };

/** How numpy calls a dtype: "float16" for F16. */
export function dtypeName(dtype: string): string {
  const name = NUMPY_NAMES[dtype.charAt(0)] ?? dtype;
  return name === "bool" ? name : name + dtype.slice(1);
}

/** A tensor's values in float32, from float16 or float32; null for another dtype. */
export function float32Of(tensor: RawTensor): Float32Array | null {
  if (tensor.dtype === "F16") return widen(new Uint16Array(tensor.bytes.buffer));
  return tensor.dtype === "F32" ? new Float32Array(tensor.bytes.buffer) : null;
}

/** The tensors of a bundle's own adapter: float16 or float32, finite. Throws CorruptArtifactError. */
export function adapterOf(raw: ReadonlyMap<string, RawTensor>, source: string): AdapterTensors {
  const tensors = new Map<string, AdapterTensor>();
  for (const [name, tensor] of raw) {
    const data = float32Of(tensor);
    if (data === null) {
      throw new CorruptArtifactError(
        `${source}: adapter tensor ${repr(name)} is ${dtypeName(tensor.dtype)}, expected float16 ` +
          "or float32",
      );
    }
    tensors.set(name, { shape: tensor.shape, data });
  }
  checkFinite(tensors, source);
  return tensors;
}

/** The tensors of a release: float16, finite. Throws CorruptArtifactError. */
export function widened(halves: ReadonlyMap<string, RawTensor>, source: string): AdapterTensors {
  const tensors = new Map<string, AdapterTensor>();
  for (const [name, tensor] of halves) {
    const data = tensor.dtype === "F16" ? float32Of(tensor) : null;
    if (data === null || !data.every(Number.isFinite)) {
      const found = data === null ? dtypeName(tensor.dtype) : "NaN or infinity";
      throw new CorruptArtifactError(
        `${source}: adapter tensor ${repr(name)} holds ${found}, expected finite float16`,
      );
    }
    tensors.set(name, { shape: tensor.shape, data });
  }
  return tensors;
}

/** A caller's tensors: Float32Array of as many values as the shape says, finite; copied. */
export function checkedTensors(given: AdapterTensors, source: string): AdapterTensors {
  const tensors = new Map<string, AdapterTensor>();
  for (const [name, { shape, data }] of given) {
    const size = shape.reduce((product, length) => product * length, 1);
    if (!(data instanceof Float32Array) || data.length !== size) {
      throw new CorruptArtifactError(
        `${source}: adapter tensor ${repr(name)} is no Float32Array of the ${size} values of the ` +
          `shape ${show([...shape])}`,
      );
    }
    tensors.set(name, { shape: [...shape], data: Float32Array.from(data) });
  }
  checkFinite(tensors, source);
  return tensors;
}

function checkFinite(tensors: AdapterTensors, source: string): void {
  for (const [name, { data }] of tensors) {
    if (!data.every(Number.isFinite)) {
      throw new CorruptArtifactError(`${source}: adapter tensor ${repr(name)} holds NaN or infinity`);
    }
  }
}
