/**
 * The encoder's ONNX graph in an onnxruntime session: token ids in, one vector out.
 *
 * - One text a call, unpadded. Dynamic int8 takes its activation scale over the whole batch, so a
 *   vector would otherwise depend on its neighbours and on their padding.
 * - The adapter's values are written into a copy of the model's bytes, which the session is made of.
 *   Another adapter is therefore another session, made beside this one.
 */

import type { InferenceSession, TensorConstructor } from "onnxruntime-common";
import { breathe, throwIfAborted, Turns } from "./platform/cancelling.js";
import type { AdapterTensors } from "./bundle/adapter_tensors.js";
import { CorruptArtifactError, InvalidInputError, MissingExtraError, PocketQueryError } from "./errors.js";
import { type OnnxModel, readOnnxModel } from "./bundle/onnx_model.js";
import { copied } from "./files/bytes.js";
import { byCodePoint, kindOf, repr, show, showShape } from "./python_text.js";

const INPUTS = ["input_ids", "attention_mask"] as const;
const OUTPUT = "sentence_embedding";

export type SessionOptions = InferenceSession.SessionOptions;

/** What is used of onnxruntime-web, -node or -react-native; `pocketquery/runtime` has it, too. */
export interface OnnxRuntime {
  readonly InferenceSession: {
    create(model: Uint8Array, options?: SessionOptions): Promise<InferenceSession>;
  };
  readonly Tensor: TensorConstructor;
}

/** A session that has a field of this name takes a function of this name: what to await between its steps. */
const SLICED = "between";

/** One thread and no optimisation across calls: a query is small. The caller's options win. */
const OPTIONS: SessionOptions = {
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  executionMode: "sequential",
  logSeverityLevel: 4, // onnxruntime logs what it then also raises; the exception is enough
};

/** How a graph is made. */
export interface GraphSettings {
  readonly onnxruntime: OnnxRuntime;
  /** The dimension the output must have. */
  readonly dimension: number;
  /** How to call the bundle in an error. */
  readonly source: string;
  readonly sessionOptions?: SessionOptions | undefined;
}

/** The model's bytes, from which sessions are made, one after the other. */
export class GraphModel {
  readonly #bytes: Uint8Array;
  readonly #model: OnnxModel;
  readonly #settings: GraphSettings;

  /**
   * `bytes`: of `encoder.onnx`; they are copied.
   *
   * Throws CorruptArtifactError: it is no ONNX model, or its inputs or output are not as a bundle's.
   */
  constructor(bytes: Uint8Array, settings: GraphSettings) {
    this.#settings = settings;
    this.#bytes = copied(bytes);
    try {
      this.#model = readOnnxModel(this.#bytes);
    } catch (error) {
      throw unloadable(settings.source, "encoder.onnx", error);
    }
    checkInterface(this.#model, settings);
  }

  /** The names of every tensor an adapter may set. */
  get adapterNames(): string[] {
    return [...this.#model.slots.keys()].sort(byCodePoint);
  }

  /**
   * A session with these adapter values; tensors that are not named keep the graph's defaults. One
   * call at a time.
   *
   * Throws CorruptArtifactError: an adapter tensor has no counterpart of its shape, or onnxruntime
   * cannot load the graph.
   */
  async open(adapter: AdapterTensors): Promise<Graph> {
    this.#check(adapter);
    // A copy for as long as the session is being made: the model keeps its defaults, and onnxruntime-web
    // takes the buffer away for good where its proxy, a worker, makes the session.
    const bytes = copied(this.#bytes);
    const view = new DataView(bytes.buffer);
    for (const [name, slot] of this.#model.slots) {
      for (const [i, value] of (adapter.get(name)?.data ?? []).entries()) {
        view.setFloat32(slot.begin + 4 * i, value, true);
      }
    }
    const { onnxruntime, sessionOptions } = this.#settings;
    try {
      const options = { ...OPTIONS, ...sessionOptions };
      const session = await onnxruntime.InferenceSession.create(bytes, options);
      return new Graph(session, this.#settings, adapter);
    } catch (error) {
      throw unloadable(this.#settings.source, "encoder.onnx", error);
    }
  }

  #check(adapter: AdapterTensors): void {
    const { source } = this.#settings;
    for (const [name, { shape }] of adapter) {
      const slot = this.#model.slots.get(name);
      if (slot === undefined) {
        throw new CorruptArtifactError(
          `${source}: the adapter has a tensor ${repr(name)}, the encoder takes: ` +
            `${this.adapterNames.join(", ") || "none"}; they are of different encoders`,
        );
      }
      if (slot.shape.join() !== shape.join()) {
        throw new CorruptArtifactError(
          `${source}: adapter tensor ${repr(name)} has shape ${showShape(shape)}, the encoder takes ` +
            `${showShape(slot.shape)}; they are of different encoders`,
        );
      }
    }
  }
}

/**
 * `value`, where it is an onnxruntime.
 * @throws MissingExtraError there is none
 * @throws InvalidInputError it lacks what is used of one
 */
export function checkRuntime(value: unknown): OnnxRuntime {
  const { InferenceSession, Tensor } = (value ?? {}) as Partial<OnnxRuntime>;
  if (typeof InferenceSession?.create === "function" && typeof Tensor === "function") {
    return value as OnnxRuntime;
  }
  const expected =
    "the module of onnxruntime-web, -node or -react-native, one of which is to be installed: " +
    'npm install onnxruntime-web; import * as onnxruntime from "onnxruntime-web/wasm". An encoder also runs ' +
    'without, where there is WebAssembly: import * as onnxruntime from "pocketquery/runtime"';
  if (value === undefined || value === null) {
    throw new MissingExtraError(`no onnxruntime is given, expected ${expected}`);
  }
  throw new InvalidInputError(
    `onnxruntime is ${kindOf(value)} without InferenceSession and Tensor, expected ${expected}`,
  );
}

/**
 * Why onnxruntime could not load `file`: the file's damage, as Python says it, or that the platform
 * lacks what onnxruntime runs on, of which onnxruntime-common says that no backend is available.
 */
export function unloadable(source: string, file: string, error: unknown): PocketQueryError {
  if (error instanceof PocketQueryError) return at(`${source}: ${file}`, error);
  const { message = String(error) } = (error ?? {}) as Partial<Error>;
  if (typeof WebAssembly !== "object" && /wasm|webassembly|backend/i.test(message)) {
    return new MissingExtraError(
      `${source}: WebAssembly is not there or is switched off, and onnxruntime needs it here; ` +
        `switch it on (strict security modes switch it off), or use another browser (${message})`,
      { cause: error },
    );
  }
  if (/no available backend found/i.test(message)) {
    return new MissingExtraError(
      `${source}: onnxruntime cannot start here: ${message}. Serve its .wasm and .mjs files where it ` +
        "looks for them (onnxruntime-web: env.wasm.wasmPaths), and where the page has a " +
        "Content-Security-Policy let script-src have 'wasm-unsafe-eval'",
      { cause: error },
    );
  }
  return new CorruptArtifactError(`${source}: onnxruntime cannot load ${file}: ${message}`, {
    cause: error,
  });
}

/** The same error with the place it is about in front. */
function at(place: string, error: PocketQueryError): PocketQueryError {
  const kind = error.constructor as new (message: string, options: ErrorOptions) => PocketQueryError;
  return new kind(`${place}: ${error.message}`, { cause: error });
}

/** A session over `encoder.onnx`. */
export class Graph {
  /** The tensors that are bound; those left at their defaults are not among them. */
  readonly adapter: AdapterTensors;
  readonly #session: InferenceSession;
  readonly #settings: GraphSettings;
  readonly #turns = new Turns();

  constructor(session: InferenceSession, settings: GraphSettings, adapter: AdapterTensors) {
    this.#session = session;
    this.#settings = settings;
    this.adapter = adapter;
  }

  /**
   * The vector of one text, L2-normalised by the graph: float32 of `dimension` numbers. `ids`: its
   * token ids, special ones included. Calls take their turn, the urgent ones first: not every platform's
   * session can run twice at once. Between two of them the thread's other work goes on; with `pocketquery/runtime`
   * also within one that is not urgent, which then awaits `between`, and lets urgent ones go first.
   *
   * Throws CorruptArtifactError: the graph cannot take the ids (they are of another vocabulary); and the
   * signal's reason, where it aborts before the turn comes, or where `between` throws it.
   */
  embed(
    ids: readonly number[],
    isUrgent: boolean,
    signal?: AbortSignal,
    between: () => Promise<void> = () => breathe(signal),
  ): Promise<Float32Array> {
    const slices = isUrgent || !(SLICED in this.#session) ? undefined : this.#turns.slices(between);
    return this.#turns.take(() => this.#run(ids, slices, signal), isUrgent, signal);
  }

  /** Ends the session once what was asked for is computed. */
  async release(): Promise<void> {
    await this.#turns.done();
    await this.#session.release();
  }

  async #run(ids: readonly number[], between?: () => Promise<void>, signal?: AbortSignal): Promise<Float32Array> {
    const { onnxruntime, source, dimension } = this.#settings;
    const shape = [1, ids.length];
    const tensor = (values: BigInt64Array) => new onnxruntime.Tensor("int64", values, shape);
    const feed = {
      input_ids: tensor(BigInt64Array.from(ids, BigInt)),
      attention_mask: tensor(new BigInt64Array(ids.length).fill(1n)),
    };
    let vector: unknown;
    try {
      const options: object | undefined = between && { [SLICED]: between };
      vector = (await this.#session.run(feed, [OUTPUT], options))[OUTPUT]?.data;
    } catch (error) {
      throwIfAborted(signal);
      if (error instanceof PocketQueryError) throw at(source, error);
      throw new CorruptArtifactError(
        `${source}: the encoder cannot take the tokenizer's ids (largest ` +
          `${ids.reduce((a, b) => Math.max(a, b), 0)}); they are of different vocabularies. Export ` +
          `the bundle again. onnxruntime says: ${(error as Error).message}`,
        { cause: error },
      );
    }
    if (!(vector instanceof Float32Array) || vector.length !== dimension) {
      const found = (vector as { length?: number } | undefined)?.length;
      throw new CorruptArtifactError(
        `${source}: ${OUTPUT} has ${found} dimensions, the manifest says ${dimension}`,
      );
    }
    return Float32Array.from(vector); // the session's memory may be used again
  }
}

function checkInterface({ inputs, outputs }: OnnxModel, settings: GraphSettings): void {
  const { source, dimension } = settings;
  const right = inputs.length === INPUTS.length && INPUTS.every((name) =>
    inputs.some((input) => input.name === name && input.type === "tensor(int64)"),
  );
  if (!right) {
    const found = inputs.map(({ name, type }) => `${repr(name)}: ${repr(type)}`).join(", ");
    throw new CorruptArtifactError(
      `${source}: encoder.onnx takes {${found}}, expected int64 ${INPUTS.join(" and ")}`,
    );
  }
  const output = outputs.find(({ name }) => name === OUTPUT);
  if (output === undefined) {
    const found = outputs.map(({ name }) => name).sort(byCodePoint);
    throw new CorruptArtifactError(
      `${source}: encoder.onnx gives ${show(found)}, expected ${OUTPUT}`,
    );
  }
  // An exporter may leave the last axis symbolic (a text); then the first call tells.
  if (output.type !== "tensor(float)" || output.shape.length !== 2) {
    throw new CorruptArtifactError(
      `${source}: ${OUTPUT} is ${output.type} ${show([...output.shape])}, ` +
        `expected float (batch, ${dimension})`,
    );
  }
  if (typeof output.shape[1] === "number" && output.shape[1] !== dimension) {
    throw new CorruptArtifactError(
      `${source}: ${OUTPUT} has ${output.shape[1]} dimensions, the manifest says ${dimension}`,
    );
  }
}
