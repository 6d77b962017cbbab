/**
 * Calls across a worker's border: a method's name and arguments there, its result or error back.
 * Errors of ours keep their class, an AbortSignal its effect, and progress its way.
 */

import { reasonOf, throwIfAborted } from "./platform/cancelling.js";
import { ERROR_CLASSES, InvalidInputError, PocketQueryError } from "./errors.js";

/** A Worker, a MessagePort, or a worker's own global object. */
export interface Port {
  postMessage(message: unknown, transfer: Transferable[]): void;
  addEventListener(type: "message" | "messageerror" | "error", listener: (event: MessageEvent) => void): void;
  start?(): void;
}

/** What a method gets beside its arguments. */
export interface Context {
  readonly signal: AbortSignal;
  /** Sends something to the caller while the method runs. */
  notify(message: unknown): void;
}

export type Methods = Readonly<Record<string, (context: Context, ...args: never[]) => unknown>>;

/** How a method is called. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onMessage?: ((message: unknown) => void) | undefined;
}

type Message =
  | { readonly kind: "call"; readonly id: number; readonly method: string; readonly args: unknown[] }
  | { readonly kind: "abort"; readonly id: number }
  | { readonly kind: "note"; readonly id: number; readonly message: unknown }
  | { readonly kind: "result"; readonly id: number; readonly value: unknown }
  | { readonly kind: "error"; readonly id: number; readonly name: string; readonly text: string };

/** Answers the calls that arrive at `port` with `methods`. */
export function answer(port: Port, methods: Methods): void {
  const running = new Map<number, AbortController>();
  const send = (message: Message): void => port.postMessage(message, buffersOf(message));
  port.addEventListener("message", async ({ data }: MessageEvent<Message>) => {
    if (data.kind === "abort") running.get(data.id)?.abort();
    if (data.kind !== "call") return;
    const { id, method, args } = data;
    const controller = new AbortController();
    running.set(id, controller);
    const notify = (message: unknown): void => send({ kind: "note", id, message });
    try {
      const found = Object.hasOwn(methods, method) ? methods[method] : undefined;
      if (found === undefined) throw new PocketQueryError(`the worker has no method ${method}`);
      const value = await found({ signal: controller.signal, notify }, ...(args as never[]));
      send({ kind: "result", id, value });
    } catch (error) {
      const { name = "Error", message = String(error) } = (error ?? {}) as Partial<Error>;
      send({ kind: "error", id, name, text: message });
    } finally {
      running.delete(id);
    }
  });
  port.start?.();
}

/** Calls the methods that answer at the other end of `port`; all callers of a port share its listeners. */
export class Caller {
  readonly #calls: Calls;

  constructor(readonly port: Port) {
    this.#calls = callsAt.get(port) ?? new Calls(port);
    callsAt.set(port, this.#calls);
  }

  /**
   * The result of the method; throws what it throws, or that the worker failed. What is ended by its
   * signal throws the signal's reason, unless it was done by then: the worker says which, so that
   * nothing that happened there is reported as if it had not.
   *
   * Throws InvalidInputError where an argument cannot be sent.
   */
  call(method: string, args: unknown[], options: CallOptions = {}): Promise<unknown> {
    return this.#calls.call(method, args, options);
  }
}

/** What waits for answers from a port. */
class Calls {
  readonly #port: Port;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;
  #missing: string | null = null; // why nobody will ever answer

  constructor(port: Port) {
    this.#port = port;
    port.addEventListener("message", ({ data }: MessageEvent<Message>) => this.#receive(data));
    port.addEventListener("messageerror", () => this.#fail("an answer of it cannot be read here"));
    port.addEventListener("error", (event) => {
      // Without a message where the script itself did not come; else it may still answer.
      const { message } = event as { message?: string };
      if (!message) this.#missing = "its script, or a module it imports, cannot be loaded";
      this.#fail(message || (this.#missing as string));
    });
    port.start?.();
  }

  call(method: string, args: unknown[], { signal, onMessage }: CallOptions): Promise<unknown> {
    return new Promise((resolve, reject) => {
      throwIfAborted(signal);
      if (this.#missing !== null) throw failed(this.#missing);
      const id = ++this.#lastId;
      const abort = (): void => this.#port.postMessage({ kind: "abort", id } satisfies Message, []);
      signal?.addEventListener("abort", abort, { once: true });
      const done = (): void => signal?.removeEventListener("abort", abort);
      this.#waiting.set(id, { resolve, reject, done, signal, onMessage });
      try {
        this.#port.postMessage({ kind: "call", id, method, args } satisfies Message, []);
      } catch (error) {
        this.#waiting.delete(id);
        done();
        throw unsendable(method, error);
      }
    });
  }

  #receive(message: Message): void {
    const waiting = this.#waiting.get(message.id);
    if (waiting === undefined) return;
    if (message.kind === "note") waiting.onMessage?.(message.message);
    if (message.kind !== "result" && message.kind !== "error") return;
    this.#waiting.delete(message.id);
    const { resolve, reject, done, signal } = waiting;
    done();
    if (message.kind === "result") resolve(message.value);
    else reject(signal?.aborted ? reasonOf(signal) : errorOf(message.name, message.text));
  }

  /** Nobody may answer any more: whatever waits is told. */
  #fail(reason: string): void {
    for (const { done, reject } of this.#waiting.values()) {
      done();
      reject(failed(reason));
    }
    this.#waiting.clear();
  }
}

const callsAt = new WeakMap<Port, Calls>();

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  readonly done: () => void;
  readonly signal: AbortSignal | undefined;
  readonly onMessage: ((message: unknown) => void) | undefined;
}

function failed(reason: string): PocketQueryError {
  return new PocketQueryError(`the worker failed: ${reason}; look at its script, and make a new one`);
}

function unsendable(method: string, error: unknown): InvalidInputError {
  const { message = String(error) } = (error ?? {}) as Partial<Error>;
  return new InvalidInputError(
    `${method}: an argument cannot be sent to the worker (${message}), expected what structuredClone takes; ` +
      "leave out functions, promises and objects of classes",
    { cause: error },
  );
}

function errorOf(name: string, text: string): Error {
  const found = Object.hasOwn(ERROR_CLASSES, name) ? ERROR_CLASSES[name] : undefined;
  if (found !== undefined) return new found(text);
  const error = new Error(text);
  error.name = name;
  return error;
}

/** Vectors go across without a copy. */
function buffersOf(message: Message): Transferable[] {
  const value = message.kind === "result" ? message.value : null;
  const arrays = Array.isArray(value) ? value : [value];
  const buffers = arrays.flatMap((item) => (item instanceof Float32Array ? [item.buffer] : []));
  return [...new Set(buffers)] as Transferable[];
}
