/**
 * The encoder in a Web Worker, so that typing never stutters: the same methods, answered from another
 * thread. The page makes the worker; `pocketquery/worker-script` is one that is ready.
 */

import { throwIfAborted } from "../platform/cancelling.js";
import { DEFAULT_BUNDLE } from "../default_bundle.js";
import type { AdapterSource, EncodeOptions, Encoder } from "../encoder.js";
import { InvalidInputError } from "../errors.js";
import { openSent, type Sendable, sendable } from "../files/place.js";
import type { Progress } from "../files/source.js";
import type { GoldenAgreement } from "../bundle/golden.js";
import type { OnnxRuntime, SessionOptions } from "../graph.js";
import { load, type VerificationReport, verify, verifyOptions } from "../loading.js";
import { answer, Caller, type Context, type Methods, type Port } from "../rpc.js";
import type { Key } from "../bundle/signature.js";
import { kindOf } from "../python_text.js";
import { checkOptions } from "../texts.js";

export { answer, Caller, type Context, type Methods, type Port } from "../rpc.js";
export type { GoldenAgreement };

/** What a worker loads: everything in it can be sent to another thread. */
export interface WorkerLoadOptions {
  /** The bundle's address, or each file's, or its files; absent: the built-in bundle. */
  readonly bundle?: Sendable | undefined;
  readonly adapter?: AdapterSource;
  readonly publicKey?: Key;
  readonly verifyHashes?: boolean;
  /** Replay the golden texts before the encoder is handed out. */
  readonly verify?: boolean;
  readonly sessionOptions?: SessionOptions;
  /** Keep the bundle's files: true, or the name of an IndexedDB database. */
  readonly cache?: boolean | string | undefined;
  /**
   * For the ready worker: where onnxruntime-web's module and its .wasm files lie; where it is not given,
   * `pocketquery/runtime` takes its place.
   */
  readonly onnxruntime?: { readonly module: string; readonly wasmPaths?: string };
}

/** What an encoder says of itself. */
export interface EncoderInfo {
  readonly name: string;
  readonly version: string;
  readonly spaceId: string;
  readonly dimension: number;
  readonly maxLength: number;
  readonly languages: readonly string[];
  readonly signedBy: string | null;
}

/** Brings onnxruntime when a bundle is loaded. */
export type Runtime = (options: WorkerLoadOptions) => Promise<OnnxRuntime>;

type WebRuntime = OnnxRuntime & {
  readonly env: { readonly wasm: { numThreads?: number; wasmPaths?: unknown } };
};

/** onnxruntime-web, from where the page says; without one the runtime of our own. */
export async function imported({ onnxruntime }: WorkerLoadOptions): Promise<OnnxRuntime> {
  if (onnxruntime === undefined) return import("../runtime/runtime.js");
  const address: string = onnxruntime.module;
  // An address that the page knows; a bundler is not to look for it.
  const runtime = (await import(/* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ address)) as WebRuntime;
  runtime.env.wasm.numThreads ??= 1; // a query gains nothing from more
  if (onnxruntime.wasmPaths !== undefined) runtime.env.wasm.wasmPaths = onnxruntime.wasmPaths;
  return runtime;
}

/**
 * In the worker: answer at `port` (the worker's own `self`) with an encoder, the one that was loaded
 * last. `runtime` brings onnxruntime when the first bundle is loaded.
 */
export function serveEncoder(port: Port, runtime: Runtime): void {
  answer(port, encoderMethods(runtime).methods);
}

/** What `serveEncoder` answers with, and the encoder that a page calls by its number. */
export function encoderMethods(runtime: Runtime): { methods: Methods; opened: (id: number) => Encoder } {
  let encoder: Encoder | null = null;
  let last = 0; // the number of the encoder that was loaded last
  const opened = (id: number): Encoder => {
    if (id !== last) {
      throw new InvalidInputError(
        "the worker has loaded another encoder in the place of this one; load each in a worker of its own",
      );
    }
    if (encoder === null) throw new InvalidInputError("the worker has no encoder; load a bundle");
    return encoder;
  };
  const prepared = async (context: Context, options: WorkerLoadOptions) => {
    const { bundle, onnxruntime: _, ...others } = options;
    const onProgress = (progress: Progress): void => context.notify(progress);
    const source = await openSent(bundle as Sendable, { signal: context.signal, onProgress });
    const { signal } = context;
    return { source, all: { ...others, onnxruntime: await runtime(options), signal, onProgress } };
  };
  const methods: Methods = {
    load: async (context, options: WorkerLoadOptions) => {
      const { source, all } = await prepared(context, options);
      const loaded = await load(source, all);
      if (context.signal.aborted) await loaded.close();
      throwIfAborted(context.signal); // the one in use stays
      const before = encoder;
      encoder = loaded;
      const id = ++last;
      await before?.close();
      return { id, info: info(loaded) } satisfies Loaded;
    },
    verify: async (context, options: WorkerLoadOptions) => {
      const { source, all } = await prepared(context, options);
      return verify(source, verifyOptions(all));
    },
    encode: (context, id: number, texts: string, options: EncodeOptions) =>
      opened(id).encode(texts, listening(context, options)),
    encodeQuery: (context, id: number, texts: string, options: EncodeOptions) =>
      opened(id).encodeQuery(texts, listening(context, options)),
    encodeDocument: (context, id: number, texts: string, options: EncodeOptions) =>
      opened(id).encodeDocument(texts, listening(context, options)),
    tokenize: (_, id: number, text: string) => opened(id).tokenize(text),
    reads: (_, id: number, text: string) => opened(id).reads(text),
    adapter: (_, id: number) => opened(id).adapter,
    swapAdapter: async (_, id: number, adapter: AdapterSource | null, options: { publicKey?: Key }) => {
      const one = opened(id);
      await one.swapAdapter(adapter, options);
      return info(one);
    },
    close: async (_, id: number) => {
      if (id !== last) return; // it was closed when another took its place
      const before = encoder;
      encoder = null;
      await before?.close();
    },
  };
  return { methods, opened };
}

/** The options of a call, with what cannot cross to the worker put back. */
function listening({ signal, notify }: Context, options: EncodeOptions): EncodeOptions {
  return { ...options, signal, onProgress: (done, texts) => notify([done, texts]) };
}

/** The options with the bundle as the page names it: the worker's own address is another. */
function sent(options: WorkerLoadOptions): WorkerLoadOptions {
  return { ...options, bundle: sendable(options.bundle ?? DEFAULT_BUNDLE, "the bundle") };
}

/** What comes of loading: how later calls name the encoder, and what it says of itself. */
interface Loaded {
  readonly id: number;
  readonly info: EncoderInfo;
}

function info(encoder: Encoder): EncoderInfo {
  const { name, version, spaceId, dimension, maxLength, languages, signedBy } = encoder;
  return { name, version, spaceId, dimension, maxLength, languages, signedBy };
}

/** On the page: an encoder in a worker. Methods and errors as `Encoder`'s. */
export class WorkerEncoder {
  readonly #caller: Caller;
  readonly #id: number;
  #info: EncoderInfo;

  private constructor(caller: Caller, { id, info }: Loaded) {
    this.#caller = caller;
    this.#id = id;
    this.#info = info;
  }

  /**
   * Load a bundle in `worker`, which answers by `serveEncoder`. It takes the place of what was loaded
   * there before, whose calls then throw InvalidInputError. Errors as `load`'s; and PocketQueryError,
   * of this and of each call, where the worker fails or its script cannot be loaded.
   */
  static async load(
    worker: Port,
    options: WorkerLoadOptions = {},
    { signal, onProgress }: { signal?: AbortSignal; onProgress?: (progress: Progress) => void } = {},
  ): Promise<WorkerEncoder> {
    const caller = new Caller(worker);
    const onMessage = onProgress as ((message: unknown) => void) | undefined;
    const loaded = await caller.call("load", [sent(options)], { signal, onMessage });
    return new WorkerEncoder(caller, loaded as Loaded);
  }

  /** Check a bundle whole, in `worker`. Errors as `verify`'s. */
  static async verify(
    worker: Port,
    options: WorkerLoadOptions = {},
    { signal, onProgress }: { signal?: AbortSignal; onProgress?: (progress: Progress) => void } = {},
  ): Promise<VerificationReport> {
    const onMessage = onProgress as ((message: unknown) => void) | undefined;
    const report = await new Caller(worker).call("verify", [sent(options)], { signal, onMessage });
    return report as VerificationReport;
  }

  /** @internal How `worker`, in which it was loaded, calls it. */
  static idIn(worker: Port, encoder: unknown): number {
    const expected = "expected a WorkerEncoder of the index's worker; WorkerEncoder.load(worker, { bundle }) gives one";
    if (!(encoder instanceof WorkerEncoder)) {
      throw new InvalidInputError(`the encoder is ${kindOf(encoder)}, ${expected}`);
    }
    if (encoder.#caller.port !== worker) {
      throw new InvalidInputError(`the encoder was loaded in another worker, ${expected}`);
    }
    return encoder.#id;
  }

  get name(): string {
    return this.#info.name;
  }

  get version(): string {
    return this.#info.version;
  }

  get spaceId(): string {
    return this.#info.spaceId;
  }

  get dimension(): number {
    return this.#info.dimension;
  }

  get maxLength(): number {
    return this.#info.maxLength;
  }

  get languages(): readonly string[] {
    return this.#info.languages;
  }

  get signedBy(): string | null {
    return this.#info.signedBy;
  }

  encode(text: string, options?: EncodeOptions): Promise<Float32Array>;
  encode(texts: readonly string[], options?: EncodeOptions): Promise<Float32Array[]>;
  encode(texts: string | readonly string[], options: EncodeOptions = {}): Promise<never> {
    return this.#encoded("encode", texts, options);
  }

  encodeQuery(text: string, options?: EncodeOptions): Promise<Float32Array>;
  encodeQuery(texts: readonly string[], options?: EncodeOptions): Promise<Float32Array[]>;
  encodeQuery(texts: string | readonly string[], options: EncodeOptions = {}): Promise<never> {
    return this.#encoded("encodeQuery", texts, options);
  }

  encodeDocument(text: string, options?: EncodeOptions): Promise<Float32Array>;
  encodeDocument(texts: readonly string[], options?: EncodeOptions): Promise<Float32Array[]>;
  encodeDocument(texts: string | readonly string[], options: EncodeOptions = {}): Promise<never> {
    return this.#encoded("encodeDocument", texts, options);
  }

  tokenize(text: string): Promise<number[]> {
    return this.#call("tokenize", text) as Promise<number[]>;
  }

  reads(text: string): Promise<boolean> {
    return this.#call("reads", text) as Promise<boolean>;
  }

  async swapAdapter(
    adapter: AdapterSource | null,
    options: { readonly publicKey?: Key } = {},
  ): Promise<void> {
    this.#info = (await this.#call("swapAdapter", adapter, options)) as EncoderInfo;
  }

  async close(): Promise<void> {
    await this.#call("close");
  }

  /** A signal and a function cannot be sent: the call carries them. */
  #encoded(method: string, texts: unknown, options: EncodeOptions): Promise<never> {
    const { signal, onProgress, between: _, ...sent } = checkOptions(options);
    const onMessage = (note: unknown) => onProgress?.(...(note as [number, number]));
    const called = this.#caller.call(method, [this.#id, texts, sent], { signal, onMessage });
    return called as Promise<never>;
  }

  #call(method: string, ...args: unknown[]): Promise<unknown> {
    return this.#caller.call(method, [this.#id, ...args]);
  }
}
