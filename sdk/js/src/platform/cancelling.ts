/**
 * Ending what a signal ends, and letting others run meanwhile.
 *
 * A signal may be a polyfill's (React Native brings abort-controller's) that has `aborted` and no more.
 */

/** Throws the reason of a signal that has aborted; an AbortError where it names none. */
export function throwIfAborted(signal: AbortSignal | null | undefined): void {
  if (signal?.aborted) throw reasonOf(signal);
}

/** Why a signal aborted. */
export function reasonOf(signal: AbortSignal): unknown {
  if (signal.reason !== undefined) return signal.reason;
  const error = new Error("This operation was aborted");
  error.name = "AbortError";
  return error;
}

/** `signal` as the platform's own functions take it: one of a polyfill's is followed by one of the platform's. */
export function platformSignal(signal: AbortSignal): AbortSignal {
  if (typeof AbortSignal !== "function" || signal instanceof AbortSignal) return signal;
  const controller = new AbortController();
  const given: AbortSignal = signal;
  const abort = (): void => controller.abort(reasonOf(given));
  if (given.aborted) abort();
  else given.addEventListener("abort", abort, { once: true });
  return controller.signal;
}

/** A thread that computes for so long lets others run: timers, clicks, messages of a page. */
const LONGEST_BLOCK_MS = 8;

let lastPause = 0;

/**
 * Let others run, where nobody did for some milliseconds; then see whether the signal aborted.
 *
 * To be awaited between two pieces of work: texts, documents. Throws the signal's reason.
 */
export async function breathe(signal?: AbortSignal | null): Promise<void> {
  throwIfAborted(signal);
  if (Math.abs(Date.now() - lastPause) < LONGEST_BLOCK_MS) return;
  await pause();
  lastPause = Date.now();
  throwIfAborted(signal);
}

const searches = new Set<Promise<unknown>>(); // under way

/** Do `work`, which somebody waits for: what calls {@link giveWay} goes on when it is over. */
export function first<T>(work: () => Promise<T>): Promise<T> {
  const done = work();
  const over: Promise<unknown> = done.catch(() => undefined).then(() => searches.delete(over));
  searches.add(over);
  return done;
}

/**
 * As {@link breathe}, and the searches that are under way then come to their end first. To be awaited between two
 * pieces of an addition: a search has several steps, and would wait for a piece in each. Those that come later
 * wait for one piece, so that an addition ends, however many come. Nothing that a search waits for may call this.
 */
export async function giveWay(signal?: AbortSignal | null): Promise<void> {
  await breathe(signal);
  if (searches.size === 0) return;
  await Promise.all(searches);
  throwIfAborted(signal);
}

/**
 * One turn of the event loop. A message comes back at once also in a tab in the background, where a
 * timer waits a second, and lets timers and other messages go first, which scheduler.yield() does not.
 */
function pause(): Promise<void> {
  return new Promise((resolve) => {
    if (typeof MessageChannel !== "function") {
      setTimeout(resolve, 0);
      return;
    }
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

interface Turn {
  readonly start: () => Promise<void>;
  readonly isUrgent: boolean;
}

/** Work that is done one after the other, with pauses between; what is urgent goes first, and into pauses of what is not. */
export class Turns {
  readonly #waiting: Turn[] = [];
  #running: Promise<void> | null = null;
  #isPaused = false;
  #inPause: Promise<void> | null = null;

  /** The result of `work` when its turn has come. Throws the signal's reason where it aborts before. */
  take<T>(work: () => Promise<T>, isUrgent: boolean, signal?: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      const start = async (): Promise<void> => {
        try {
          throwIfAborted(signal);
          resolve(await work());
        } catch (error) {
          reject(error);
        }
      };
      this.#waiting.push({ start, isUrgent });
      this.#running ??= this.#run();
      if (this.#isPaused) this.#inPause ??= this.#runUrgent();
    });
  }

  /**
   * For work whose turn it is, that is not urgent and that can stand still: what it is to await between its steps.
   * Once some milliseconds of it were computed, it does `between`, and meanwhile what is urgent.
   */
  slices(between: () => Promise<void>): () => Promise<void> {
    let begin = Date.now();
    return async () => {
      if (Math.abs(Date.now() - begin) < LONGEST_BLOCK_MS) return;
      await this.pause(between);
      begin = Date.now();
    };
  }

  /** Within work whose turn it is: do `between`, and what is urgent until that is over. */
  async pause(between: () => Promise<void>): Promise<void> {
    this.#isPaused = true;
    this.#inPause ??= this.#runUrgent();
    try {
      await between();
    } finally {
      while (this.#inPause !== null) await this.#inPause;
      this.#isPaused = false;
    }
  }

  /** When nothing waits any more. */
  async done(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      await breathe(); // what is urgent may arrive in it
      const next = this.#urgent() ?? this.#waiting.shift();
      await next!.start();
    }
    this.#running = null;
  }

  async #runUrgent(): Promise<void> {
    await null; // not over before its caller has it
    for (let next = this.#urgent(); next !== undefined; next = this.#urgent()) await next.start();
    this.#inPause = null;
  }

  /** The first that is urgent, which then waits no more. */
  #urgent(): Turn | undefined {
    const place = this.#waiting.findIndex(({ isUrgent }) => isUrgent);
    return place < 0 ? undefined : this.#waiting.splice(place, 1)[0];
  }
}
