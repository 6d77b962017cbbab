/**
 * A runtime of our own for the query encoder, in the place of onnxruntime-web: 11 KB where that is 3.7 MB.
 *
 *     import * as onnxruntime from "pocketquery/runtime";
 *     const encoder = await load("/bundle", { onnxruntime });
 *
 * It runs what `pocketquery export` makes of an encoder, int8 or float32, with an adapter or without,
 * and refuses any other graph: a training step (`pocketquery/training`) needs onnxruntime. Products of
 * integers are exact, all else is float32, so vectors differ from onnxruntime's by rounding alone.
 */

import type { InferenceSession as OnnxSession, TensorConstructor } from "onnxruntime-common";
import type { OnnxRuntime } from "../graph.js";
import { ELEMENTWISE } from "./elementwise.js";
import { LAYERS } from "./layers.js";
import { FLOAT, INT64, Memory, type NdArray } from "./memory.js";
import { type Constant, type GraphNode, readOnnxGraph } from "./onnx_graph.js";
import { type Operator, type Run, unsupported } from "./operator.js";
import { SHAPES } from "./shapes.js";

const OPERATORS: ReadonlyMap<string, Operator> = new Map(Object.entries({ ...ELEMENTWISE, ...SHAPES, ...LAYERS }));

/** Numbers that go in (int64) or come out (float32). */
class PlainTensor {
  constructor(
    readonly type: string,
    readonly data: BigInt64Array | Float32Array,
    readonly dims: readonly number[],
  ) {}
}

/** A node with the places, among all arrays, of what it takes and gives (-1: left out). */
interface Step {
  readonly operator: string;
  readonly run: Run;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
  /** Of arrays that no later step takes. */
  readonly last: readonly number[];
}

class Session {
  readonly #memory = new Memory();
  readonly #steps: Step[];
  readonly #places = new Map<string, number>();
  readonly #stored: (NdArray | undefined)[] = [];

  /** `model`: the bytes of an ONNX file, which are not kept. */
  constructor(model: Uint8Array) {
    const graph = readOnnxGraph(model);
    const constants = new Map(graph.constants);
    const nodes = graph.nodes.filter((node) => {
      const value = node.operator === "Constant" ? node.attributes.get("value") : undefined;
      if (typeof value !== "object" || !("numbers" in value)) return true;
      constants.set(node.outputs[0] ?? "", value);
      return false;
    });
    const unknown = nodes.find(({ operator }) => !OPERATORS.has(operator));
    if (unknown !== undefined) throw unsupported(`the operator ${unknown.operator}`);
    checkOrder(nodes, [...graph.inputs, ...constants.keys()], graph.outputs);
    const steps = nodes.map((node) => this.#step(node, constants));
    const used = new Set(graph.outputs.map((name) => this.#place(name)));
    this.#steps = steps.reverse().map((step) => {
      const last = [...step.inputs, ...step.outputs].filter((place) => place >= 0 && !used.has(place));
      for (const place of last) used.add(place);
      return { ...step, last: [...new Set(last)] };
    }).reverse();
    this.#memory.keep();
  }

  #step(node: GraphNode, constants: ReadonlyMap<string, Constant>): Omit<Step, "last"> {
    const { operator } = node;
    const make = OPERATORS.get(operator) as Operator; // those of all nodes are known
    const names = [...node.inputs];
    const take = (position: number): Constant | undefined => {
      const found = constants.get(names[position] ?? "");
      if (found !== undefined) names[position] = "";
      return found;
    };
    const run = make(node, { memory: this.#memory, take });
    for (const name of names) {
      const constant = constants.get(name);
      if (constant === undefined) continue;
      const { type, shape, numbers } = constant;
      this.#stored[this.#place(name)] ??= this.#memory.store(type, shape, numbers);
    }
    const places = (all: readonly string[]): number[] => all.map((name) => (name === "" ? -1 : this.#place(name)));
    return { operator, run, inputs: places(names), outputs: places(node.outputs) };
  }

  #place(name: string): number {
    const place = this.#places.get(name) ?? this.#places.size;
    this.#places.set(name, place);
    return place;
  }

  /** The outputs that are named, as onnxruntime's sessions give them. */
  async run(feeds: Readonly<Record<string, PlainTensor>>, names: readonly string[]): Promise<Record<string, PlainTensor>> {
    this.#memory.begin();
    const arrays = this.#stored.slice();
    for (const [name, { type, data, dims }] of Object.entries(feeds)) {
      if (type !== "int64") throw new RangeError(`${name} is ${type}, expected int64`);
      arrays[this.#place(name)] = this.#memory.store(INT64, dims, Float64Array.from(data as BigInt64Array, Number));
    }
    for (const { operator, run, inputs, outputs, last } of this.#steps) {
      try {
        const found = run(inputs.map((place) => arrays[place]));
        for (const [i, array] of [found].flat().entries()) {
          const place = outputs[i] ?? -1;
          if (place >= 0) arrays[place] = array;
        }
      } catch (error) {
        throw new RangeError(`${operator}: ${(error as Error).message}`, { cause: error });
      }
      for (const place of last) if (arrays[place]) this.#memory.release(arrays[place]);
    }
    return Object.fromEntries(names.map((name) => [name, this.#given(name, arrays[this.#place(name)])]));
  }

  #given(name: string, array: NdArray | undefined): PlainTensor {
    if (array?.type !== FLOAT) throw new RangeError(`${name} is no float32 output`);
    return new PlainTensor("float32", (this.#memory.view(array) as Float32Array).slice(), array.shape);
  }

  async release(): Promise<void> {
    this.#steps.length = 0;
    this.#stored.length = 0;
  }
}

/** Throws RangeError: something is taken before it is there, or never given. */
function checkOrder(nodes: readonly GraphNode[], there: readonly string[], outputs: readonly string[]): void {
  const known = new Set(["", ...there]);
  for (const node of nodes) {
    const missing = node.inputs.find((name) => !known.has(name));
    if (missing !== undefined) throw new RangeError(`${node.operator} takes ${missing}, which nothing before it gives`);
    for (const name of node.outputs) known.add(name);
  }
  const missing = outputs.find((name) => !known.has(name));
  if (missing !== undefined) throw new RangeError(`nothing gives the output ${missing}`);
}

/** Makes sessions; in place of onnxruntime's own, of which it has what pocketquery uses. */
export const InferenceSession: OnnxRuntime["InferenceSession"] = {
  create: async (model) => new Session(model) as unknown as OnnxSession,
};

/** In place of onnxruntime's `Tensor`. */
export const Tensor = PlainTensor as unknown as TensorConstructor;
