/**
 * The nodes of an ONNX model, their attributes, and the arrays that lie in it.
 *
 * Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
 */

import { type Field, fieldsOf, integersOf, textOf } from "../bundle/protobuf.js";
import { copied } from "../files/bytes.js";
import { bytesOf, FLOAT, INT32, INT64, INT8, isKnown, type Numbers, sizeOf } from "./memory.js";
import { unsupported } from "./unsupported.js";

const FLOAT16 = 10; // in ONNX
const INT4 = 22;

/** An array as it lies in the model. */
export interface Constant {
  readonly type: number;
  readonly shape: readonly number[];
  readonly numbers: Numbers;
}

/** What an attribute may hold here. */
export type Attribute = number | string | readonly number[] | Constant;

/** One node: an operator, and the names of what it takes and gives ("" where it is left out). */
export interface GraphNode {
  /** With its domain in front where it is not ONNX's own: "com.microsoft.Gelu". */
  readonly operator: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: ReadonlyMap<string, Attribute>;
}

export interface OnnxGraph {
  /** In an order in which what a node takes was given before. */
  readonly nodes: readonly GraphNode[];
  /** Arrays that lie in the model, by name. */
  readonly constants: ReadonlyMap<string, Constant>;
  /** Names of inputs and outputs; an input that has a constant need not be fed. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** Read the graph of `model`, the bytes of an ONNX file. Throws RangeError or TypeError where it is none. */
export function readOnnxGraph(model: Uint8Array): OnnxGraph {
  const nodes: GraphNode[] = [];
  const constants = new Map<string, Constant>();
  const inputs: string[] = [];
  const outputs: string[] = [];
  for (const part of fieldsOf(model)) {
    if (part.number !== 7 || part.wire !== "bytes") continue;
    for (const field of fieldsOf(model, part.begin, part.end)) {
      if (field.number === 1) nodes.push(node(model, field));
      else if (field.number === 5) constants.set(...tensor(model, field));
      else if (field.number === 11) inputs.push(nameOf(model, field));
      else if (field.number === 12) outputs.push(nameOf(model, field));
    }
  }
  return { nodes, constants, inputs, outputs };
}

function node(model: Uint8Array, whole: Field): GraphNode {
  const inputs: string[] = [];
  const outputs: string[] = [];
  const attributes = new Map<string, Attribute>();
  let [type, domain] = ["", ""];
  for (const field of fieldsOf(model, whole.begin, whole.end)) {
    if (field.number === 1) inputs.push(textOf(model, field));
    else if (field.number === 2) outputs.push(textOf(model, field));
    else if (field.number === 4) type = textOf(model, field);
    else if (field.number === 5) attributes.set(...attribute(model, field));
    else if (field.number === 7) domain = textOf(model, field);
  }
  const operator = domain === "" || domain === "ai.onnx" ? type : `${domain}.${type}`;
  return { operator, inputs, outputs, attributes };
}

function attribute(model: Uint8Array, whole: Field): [string, Attribute] {
  let name = "";
  let value: Attribute | undefined;
  const floats: number[] = [];
  const integers: number[] = [];
  for (const field of fieldsOf(model, whole.begin, whole.end)) {
    if (field.number === 1) name = textOf(model, field);
    else if (field.number === 2) floats.push(...float32(model, field));
    else if (field.number === 3) value = field.value;
    else if (field.number === 4) value = textOf(model, field);
    else if (field.number === 5) value = tensor(model, field)[1];
    else if (field.number === 7) floats.push(...float32(model, field));
    else if (field.number === 8) integers.push(...integersOf(model, field));
  }
  return [name, value ?? (integers.length > 0 ? integers : floats.length === 1 ? floats[0]! : floats)];
}

/** A tensor's name and numbers. */
function tensor(model: Uint8Array, whole: Field): [string, Constant] {
  const shape: number[] = [];
  const integers: number[] = [];
  let name = "";
  let type = 0;
  let raw: Uint8Array | undefined;
  for (const field of fieldsOf(model, whole.begin, whole.end)) {
    if (field.number === 1) shape.push(...integersOf(model, field));
    else if (field.number === 2) type = field.value;
    else if (field.number === 5 || field.number === 7) for (const one of integersOf(model, field)) integers.push(one);
    else if (field.number === 8) name = textOf(model, field);
    else if (field.number === 4 || field.number === 9) raw = copied(model, field.begin, field.end);
    else if (field.number === 14 && field.value !== 0) throw new TypeError(`${name} in another file`);
  }
  if (type === FLOAT16 && raw !== undefined) [type, raw] = [FLOAT, widened(raw)];
  if (type === INT4 && raw !== undefined) [type, raw] = [INT8, signedNibbles(raw).subarray(0, sizeOf(shape))];
  if (!isKnown(type)) throw unsupported(`numbers of ONNX's type ${type} (${name})`);
  const numbers = viewed(type, raw ?? new Uint8Array(integers.length * bytesOf(type)));
  if (raw === undefined) numbers.set(integers);
  if (numbers.length !== sizeOf(shape)) {
    throw new RangeError(`${name} has ${numbers.length} numbers, its shape is (${shape.join(", ")})`);
  }
  return [name, { type, shape, numbers }];
}

/** The bytes of float32 for those of float16. */
function widened(raw: Uint8Array): Uint8Array {
  const out = Float32Array.from(new Uint16Array(raw.buffer), (half) => {
    const [exponent, rest] = [(half >> 10) & 31, half & 1023];
    const size = exponent === 0 ? rest * 2 ** -24 : exponent === 31 ? (rest ? NaN : Infinity) : (1024 + rest) * 2 ** (exponent - 25);
    return half >> 15 ? -size : size;
  });
  return new Uint8Array(out.buffer);
}

/** The bytes of int8 for those of int4, the first of two in the low nibble. */
function signedNibbles(raw: Uint8Array): Uint8Array {
  const out = new Int8Array(2 * raw.length);
  for (let i = 0; i < raw.length; i++) {
    out[2 * i] = (raw[i]! << 28) >> 28;
    out[2 * i + 1] = (raw[i]! << 24) >> 28;
  }
  return new Uint8Array(out.buffer);
}

/** `raw` as numbers; it is a copy of its own, so it begins where a number may. */
function viewed(type: number, raw: Uint8Array): Numbers {
  const { buffer } = raw;
  switch (type) {
    case FLOAT: return new Float32Array(buffer);
    case INT64: return Float64Array.from(new BigInt64Array(buffer), Number);
    case INT32: return new Int32Array(buffer);
    case INT8: return new Int8Array(buffer, 0, raw.length);
    default: return raw; // uint8 and bool
  }
}

function float32(model: Uint8Array, field: Field): Float32Array {
  return new Float32Array(copied(model, field.begin, field.end).buffer);
}

/** Of a ValueInfoProto. */
function nameOf(model: Uint8Array, value: Field): string {
  for (const field of fieldsOf(model, value.begin, value.end)) {
    if (field.number === 1) return textOf(model, field);
  }
  return "";
}
