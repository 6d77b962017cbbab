/** What an operator is: made once for a node, run for every text. */

import { FLOAT, type Memory, type NdArray, sizeOf } from "./memory.js";
import type { Constant, GraphNode } from "./onnx_graph.js";

export type Inputs = readonly (NdArray | undefined)[];

/** Arrays in, new arrays out, in the order of the node's names. */
export type Run = (inputs: Inputs) => NdArray | readonly NdArray[];

/** What a node is prepared with. */
export interface Preparation {
  readonly memory: Memory;
  /** Takes over an input that is known beforehand; it is then not stored. Undefined where it is not. */
  take(position: number): Constant | undefined;
}

/** Makes what runs a node. Throws MissingExtraError: the node asks for what is not here. */
export type Operator = (node: GraphNode, preparation: Preparation) => Run;

/** An attribute that is a number. */
export function numberOf(node: GraphNode, name: string, otherwise: number): number {
  const value = node.attributes.get(name);
  return typeof value === "number" ? value : otherwise;
}

/** An attribute that is a list of integers; undefined where it is not there. */
export function listOf(node: GraphNode, name: string): readonly number[] | undefined {
  const value = node.attributes.get(name);
  return Array.isArray(value) ? (value as readonly number[]) : undefined;
}

/** An input that must be there. Throws RangeError: the node has none. */
export function needed(inputs: Inputs, position: number): NdArray {
  const input = inputs[position];
  if (input === undefined) throw new RangeError(`no input ${position}`);
  return input;
}

/** An input of float32, which the kernels take. Throws RangeError: there is none. */
export function floats(inputs: Inputs, position: number): NdArray {
  const input = needed(inputs, position);
  if (input.type !== FLOAT) throw new RangeError(`input ${position} is of ONNX's type ${input.type}, expected float32`);
  return input;
}

/** A new array with the same numbers under another shape. */
export function reshaped(memory: Memory, array: NdArray, shape: readonly number[]): NdArray {
  if (sizeOf(shape) !== sizeOf(array.shape)) {
    throw new RangeError(`${sizeOf(array.shape)} numbers in the shape (${shape.join(", ")})`);
  }
  const out = memory.allocate(array.type, shape);
  memory.bytes(out).set(memory.bytes(array));
  return out;
}
