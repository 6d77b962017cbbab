/**
 * Calls across a worker's border: a method's name and arguments there, its result or error back.
 * Errors of ours keep their class, an AbortSignal its effect, and progress its way.
 */

import { ERROR_CLASSES, PocketQueryError } from "./errors.js";

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

let lastId = 0; // of all callers: several may share a port

/** Calls the methods that answer at the other end of `port`. */
export class Caller {
  readonly #port: Port;
  readonly #waiting = new Map<number, Waiting>();

  constructor(port: Port) {
    this.#port = port;
    port.addEventListener("message", ({ data }: MessageEvent<Message>) => this.#receive(data));
    port.addEventListener("messageerror", () => this.#fail("an answer of it cannot be read here"));
    port.addEventListener("error", (event) => {
      // Without a message where the script itself did not come.
      const { message } = event as { message?: string };
      this.#fail(message || "its script, or a module it imports, cannot be loaded");
    });
    port.start?.();
  }

  /** The result of the method; throws what it throws, the signal's reason, or that the worker failed. */
  call(method: string, args: unknown[], options: CallOptions = {}): Promise<unknown> {
    const { signal, onMessage } = options;
    const id = ++lastId;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const abort = (): void => {
        this.#waiting.delete(id);
        this.#port.postMessage({ kind: "abort", id } satisfies Message, []);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", abort, { once: true });
      const done = (): void => signal?.removeEventListener("abort", abort);
      this.#waiting.set(id, { resolve, reject, done, onMessage });
      this.#port.postMessage({ kind: "call", id, method, args } satisfies Message, []);
    });
  }

  #receive(message: Message): void {
    const waiting = this.#waiting.get(message.id);
    if (waiting === undefined) return;
    if (message.kind === "note") waiting.onMessage?.(message.message);
    if (message.kind !== "result" && message.kind !== "error") return;
    this.#waiting.delete(message.id);
    waiting.done();
    if (message.kind === "result") waiting.resolve(message.value);
    else waiting.reject(errorOf(message.name, message.text));
  }

  /** Nobody may answer any more: whatever waits is told. */
  #fail(reason: string): void {
    const error = new PocketQueryError(`the worker failed: ${reason}; look at its script, and make a new one`);
    for (const { done, reject } of this.#waiting.values()) {
      done();
      reject(error);
    }
    this.#waiting.clear();
  }
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  readonly done: () => void;
  readonly onMessage: ((message: unknown) => void) | undefined;
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
