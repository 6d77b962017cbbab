/**
 * What of an ONNX model has to be known before a session is made: its inputs, its outputs, and where
 * in its bytes the values lie that an adapter replaces.
 *
 * onnxruntime for browsers cannot feed initializers that have defaults, so an adapter's values are
 * written into the model's bytes. That works on every platform alike.
 *
 * Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
 */

import { fieldsOf, type Field, integersOf, textOf } from "./protobuf.js";

const FLOAT = 1; // TensorProto.DataType
const TYPE_NAMES: Readonly<Record<number, string>> = {
  1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string",
  9: "bool", 10: "float16", 11: "double", 12: "uint32", 13: "uint64", 16: "bfloat16",
};

/** An input or output: its type in onnxruntime's words, and its shape (a text is a free axis). */
export interface ValueInfo {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly (number | string | null)[];
}

/** A float32 initializer that is an input too: its default may be replaced. */
export interface Slot {
  readonly shape: readonly number[];
  /** Where its values lie in the model, 4 bytes each, little-endian. */
  readonly begin: number;
  readonly end: number;
}

export interface OnnxModel {
  /** Inputs that must be fed. */
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  /** Inputs that have a default and may be replaced, by name. */
  readonly slots: ReadonlyMap<string, Slot>;
  /** Texts that the exporter left in the model, by name. */
  readonly metadata: ReadonlyMap<string, string>;
}

/** Read `model`, the bytes of an ONNX file. Throws RangeError or TypeError where it is none. */
export function readOnnxModel(model: Uint8Array): OnnxModel {
  const inputs: ValueInfo[] = [];
  const outputs: ValueInfo[] = [];
  const initializers = new Map<string, Slot | null>();
  const metadata = new Map<string, string>();
  for (const graph of fieldsOf(model)) {
    if (graph.number === 14 && graph.wire === "bytes") metadata.set(...entry(model, graph));
    if (graph.number !== 7 || graph.wire !== "bytes") continue;
    for (const field of fieldsOf(model, graph.begin, graph.end)) {
      if (field.number === 5) initializers.set(...initializer(model, field));
      else if (field.number === 11) inputs.push(valueInfo(model, field));
      else if (field.number === 12) outputs.push(valueInfo(model, field));
    }
  }
  const slots = new Map<string, Slot>();
  for (const { name } of inputs) {
    const slot = initializers.get(name);
    if (slot) slots.set(name, slot);
  }
  return { inputs: inputs.filter(({ name }) => !initializers.has(name)), outputs, slots, metadata };
}

/** The name of an initializer, and where its values lie; null where they are not plain float32. */
function initializer(model: Uint8Array, tensor: Field): [string, Slot | null] {
  const shape: number[] = [];
  let name = "";
  let type = 0;
  let begin = 0;
  let end = 0;
  let external = false;
  for (const field of fieldsOf(model, tensor.begin, tensor.end)) {
    if (field.number === 1) shape.push(...integersOf(model, field));
    else if (field.number === 2) type = field.value;
    else if (field.number === 8) name = textOf(model, field);
    else if (field.number === 14) external = field.value !== 0;
    else if ((field.number === 4 || field.number === 9) && field.wire === "bytes") {
      ({ begin, end } = field); // float_data, packed, has the same bytes as raw_data
    }
  }
  const bytes = shape.reduce((product, size) => product * size, 4);
  const usable = type === FLOAT && !external && end - begin === bytes;
  return [name, usable ? { shape, begin, end } : null];
}

/** A name and its text. */
function entry(model: Uint8Array, field: Field): [string, string] {
  const found: [string, string] = ["", ""];
  for (const part of fieldsOf(model, field.begin, field.end)) {
    if (part.wire !== "bytes" || part.number > 2) continue;
    found[part.number - 1] = textOf(model, part);
  }
  return found;
}

function valueInfo(model: Uint8Array, value: Field): ValueInfo {
  let name = "";
  let type = 0;
  const shape: (number | string | null)[] = [];
  for (const field of fieldsOf(model, value.begin, value.end)) {
    if (field.number === 1) name = textOf(model, field);
    if (field.number !== 2) continue;
    for (const kind of fieldsOf(model, field.begin, field.end)) {
      if (kind.number !== 1) continue; // a tensor; nothing else is expected
      for (const part of fieldsOf(model, kind.begin, kind.end)) {
        if (part.number === 1) type = part.value;
        if (part.number !== 2) continue;
        for (const axis of fieldsOf(model, part.begin, part.end)) shape.push(axisOf(model, axis));
      }
    }
  }
  return { name, type: `tensor(${TYPE_NAMES[type] ?? type})`, shape };
}

function axisOf(model: Uint8Array, axis: Field): number | string | null {
  for (const field of fieldsOf(model, axis.begin, axis.end)) {
    if (field.number === 1) return field.value;
    if (field.number === 2) return textOf(model, field);
  }
  return null;
}
