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
import { PocketQueryError } from "../errors.js";
import type { OnnxRuntime } from "../graph.js";
import { ELEMENTWISE } from "./elementwise.js";
import { LAYERS } from "./layers.js";
import { FLOAT, INT64, Memory, type NdArray, shown, sizeOf } from "./memory.js";
import { type Constant, type GraphNode, type OnnxGraph, readOnnxGraph } from "./onnx_graph.js";
import type { Operator, Run } from "./operator.js";
import { SHAPES } from "./shapes.js";
import { unsupported } from "./unsupported.js";

const OPERATORS: ReadonlyMap<string, Operator> = new Map(Object.entries({ ...ELEMENTWISE, ...SHAPES, ...LAYERS }));

/** Operators of what is done to weights before they are used. */
const FOLDED: ReadonlySet<string> = new Set(["Cast", "QuantizeLinear", "Transpose"]);

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
  /** Says that a run can stand still between its steps; see `run`. */
  readonly between = true;
  #memory: Memory | null;
  #isHeld = false;
  readonly #steps: Step[];
  readonly #places = new Map<string, number>();
  readonly #stored: (NdArray | undefined)[] = [];
  readonly #inputs: readonly string[]; // those that must be fed
  readonly #outputs: readonly string[];

  /** `model`: the bytes of an ONNX file, which are not kept. */
  constructor(model: Uint8Array, memory: Memory) {
    this.#memory = memory;
    const graph = readOnnxGraph(model);
    this.#inputs = graph.inputs.filter((name) => !graph.constants.has(name));
    this.#outputs = graph.outputs;
    const constants = new Map(graph.constants);
    const unknown = graph.nodes.find(({ operator }) => operator !== "Constant" && !OPERATORS.has(operator));
    if (unknown !== undefined) throw unsupported(`the operator ${unknown.operator}`);
    const nodes = graph.nodes.filter((node) => {
      const value = node.operator === "Constant" ? node.attributes.get("value") : folded(node, graph, constants, memory);
      if (typeof value !== "object" || !("numbers" in value)) return true;
      if (node.outputs[0]) constants.set(node.outputs[0], value);
      return false;
    });
    checkOrder(nodes, [...graph.inputs, ...constants.keys()], graph.outputs);
    const steps = nodes.map((node) => this.#step(node, constants, memory));
    const used = new Set(graph.outputs.map((name) => this.#place(name)));
    this.#steps = steps.reverse().map((step) => {
      const last = [...step.inputs, ...step.outputs].filter((place) => place >= 0 && !used.has(place));
      for (const place of last) used.add(place);
      return { ...step, last: [...new Set(last)] };
    }).reverse();
    memory.keep();
  }

  #step(node: GraphNode, constants: ReadonlyMap<string, Constant>, memory: Memory): Omit<Step, "last"> {
    const { operator } = node;
    const make = OPERATORS.get(operator) as Operator; // those of all nodes are known
    const names = [...node.inputs];
    const take = (position: number): Constant | undefined => {
      const found = constants.get(names[position] ?? "");
      if (found !== undefined) names[position] = "";
      return found;
    };
    const run = make(node, { memory, take });
    for (const name of names) {
      const constant = constants.get(name);
      if (constant === undefined) continue;
      const { type, shape, numbers } = constant;
      this.#stored[this.#place(name)] ??= memory.store(type, shape, numbers);
    }
    const places = (all: readonly string[]): number[] => all.map((name) => (name === "" ? -1 : this.#place(name)));
    return { operator, run, inputs: places(names), outputs: places(node.outputs) };
  }

  #place(name: string): number {
    const place = this.#places.get(name) ?? this.#places.size;
    this.#places.set(name, place);
    return place;
  }

  /**
   * The outputs that are named, or all, as onnxruntime's sessions give them. `between` is awaited after each step, and
   * others may run to their end meanwhile.
   */
  async run(
    feeds: Readonly<Record<string, PlainTensor>>,
    names: readonly string[] = this.#outputs,
    { between }: { readonly between?: () => Promise<void> } = {},
  ): Promise<Record<string, PlainTensor>> {
    const memory = this.#memory;
    if (memory === null) throw new RangeError("the session was released");
    memory.begin();
    const arrays = this.#stored.slice();
    for (const name of new Set([...this.#inputs, ...Object.keys(feeds)])) {
      const fed = this.#inputs.includes(name) ? feeds[name] : undefined;
      if (fed === undefined) throw new RangeError(`feeds ${Object.keys(feeds).join(", ")}, expected ${this.#inputs.join(", ")}`);
      arrays[this.#place(name)] = given(memory, name, fed);
    }
    for (const { operator, run, inputs, outputs, last } of this.#steps) {
      try {
        const found = run(inputs.map((place) => arrays[place]));
        for (const [i, array] of [found].flat().entries()) {
          const place = outputs[i] ?? -1;
          if (place >= 0) arrays[place] = array;
        }
      } catch (error) {
        if (error instanceof PocketQueryError) throw error;
        throw new RangeError(`${operator}: ${(error as Error).message}`, { cause: error });
      }
      for (const place of last) if (arrays[place]) memory.release(arrays[place]);
      if (between && !this.#isHeld) await this.#standStill(memory, between); // within another's pause it runs through
    }
    return Object.fromEntries(names.map((name) => [name, taken(memory, name, arrays[this.#place(name)])]));
  }

  async #standStill(memory: Memory, between: () => Promise<void>): Promise<void> {
    const resume = memory.hold();
    this.#isHeld = true;
    try {
      await between();
    } finally {
      this.#isHeld = false;
      resume();
    }
  }

  async release(): Promise<void> {
    this.#memory = null;
    this.#steps.length = 0;
    this.#stored.length = 0;
  }
}

/** What a node gives that takes nothing but constants, computed once; undefined for any other. */
function folded(
  node: GraphNode, graph: OnnxGraph, constants: Map<string, Constant>, memory: Memory,
): Constant | undefined {
  const taken = node.inputs.map((name) => (graph.inputs.includes(name) ? undefined : constants.get(name)));
  const make = FOLDED.has(node.operator) && !taken.includes(undefined) ? OPERATORS.get(node.operator) : undefined;
  if (make === undefined) return undefined;
  const run = make(node, { memory, take: () => undefined });
  const array = [run((taken as Constant[]).map(({ type, shape, numbers }) => memory.store(type, shape, numbers)))].flat()[0]!;
  const value = { type: array.type, shape: array.shape, numbers: memory.view(array).slice() };
  memory.begin(); // nothing is kept yet
  for (const name of node.inputs) { // the same weights as float32 take eight times the room
    if (graph.nodes.filter(({ inputs }) => inputs.includes(name)).length === 1) constants.delete(name);
  }
  return value;
}

function given(memory: Memory, name: string, { type, data, dims }: PlainTensor): NdArray {
  if (!(data instanceof BigInt64Array) || data.length !== sizeOf(dims)) {
    throw new RangeError(`${name} is ${type} with ${data.length} numbers, expected int64 of shape ${shown(dims)}`);
  }
  return memory.store(INT64, dims, Float64Array.from(data, Number));
}

function taken(memory: Memory, name: string, array: NdArray | undefined): PlainTensor {
  if (array?.type !== FLOAT) throw new RangeError(`${name} is no float32 output`);
  return new PlainTensor("float32", (memory.view(array) as Float32Array).slice(), array.shape);
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

/** Session options for speed; all that may be asked for is one thread, which is the case anyway. */
const FASTER = ["executionProviders", "intraOpNumThreads"] as const;

/** @internal What makes sessions, each in a memory that `open` gives. */
export function sessionsIn(open: () => Promise<Memory>): OnnxRuntime["InferenceSession"] {
  return {
    async create(model, options = {}) {
      const asked = FASTER.find((name) => (options[name] ?? 1) !== 1);
      if (asked) throw unsupported(asked, "sessionOptions"); // it would be ignored without a word
      return new Session(model, await open()) as unknown as OnnxSession;
    },
  };
}

/** Makes sessions; in place of onnxruntime's own, of which it has what pocketquery uses. */
export const InferenceSession = /* @__PURE__ */ sessionsIn(() => Memory.open());

/** In place of onnxruntime's `Tensor`. */
export const Tensor = PlainTensor as unknown as TensorConstructor;
