/**
 * A device's connection to its gateway: signed requests, sent again where that is of use; Python's
 * `pocketquery_join/connection.py`.
 *
 * Every request may be sent twice without harm: an update counts once, a key is registered once. So
 * what is lost on the way, or told to wait, is tried again, with a pause that grows and is not the
 * same on all devices.
 */

import { reasonOf, throwIfAborted } from "../platform/cancelling.js";
import { concatenated } from "../files/bytes.js";
import { ArtifactError, CorruptArtifactError, InvalidInputError, PocketQueryError } from "../errors.js";
import { Fields } from "../fields.js";
import type { Fetch } from "../files/fetch.js";
import { checkCount, checkOptions, type Names } from "../texts.js";
import { decodeUtf8 } from "../utf8.js";
import { signedHeaders, type Signer } from "./signing.js";

const LARGEST_ANSWER = 2 << 20;
const LARGEST_JSON = 1 << 20;
const TAKEN = [200, 201, 204];
const NOT_MODIFIED = 304;
const LAST_CREATED = 1e11 - 1; // that a signature can say
const AGAIN = [408, 429, 502, 503, 504];
const LONGEST_PAUSE = 60;
const LONGEST_ASKED = 3600;
const ETAG = /^(?:W\/)?"[!#-~]{1,128}"$/;
const LOOPBACK = ["127.0.0.1", "localhost", "[::1]"];

/** The gateway refuses a request. */
export class RefusedError extends ArtifactError {
  static override readonly name = "RefusedError";

  constructor(
    /** Of HTTP. */
    readonly status: number,
    /** The gateway's word for why, see docs/gateway.md; empty where it gives none. */
    readonly code: string,
    detail: string,
    /** Seconds that it asks to wait for; 0 where it does not say. */
    readonly retryAfter = 0,
  ) {
    super(`the gateway refuses (${status} ${code}): ${detail}`);
  }
}

/** What the gateway answered. */
export interface Answer {
  readonly status: number;
  readonly body: Uint8Array;
  /** Empty where it names none. */
  readonly etag: string;
  /** Of a private round that the body is the message of; 0 where it is none. */
  readonly stage: number;
  /** Seconds that it asks to wait for; 0 where it does not say. */
  readonly retryAfter: number;
}

/** The JSON object in an answer; `source` names it in errors. Throws CorruptArtifactError: it is none. */
export function jsonOf({ body }: Answer, source: string): Fields {
  return Fields.ofJson(body, source, LARGEST_JSON);
}

/**
 * See that the gateway took what was sent, and gives this verdict; null: an answer without a body. Throws
 * CorruptArtifactError: what answers is no gateway, or one of another version.
 */
export function checkVerdict(answer: Answer, verdict: string | null): void {
  if (verdict !== null) jsonOf(answer, "the gateway's verdict").choice("verdict", [verdict]);
  else if (answer.status !== 204) {
    throw new CorruptArtifactError(`the gateway answered with status ${answer.status}, expected 204`);
  }
}

/** What a request has beside method and path. */
export interface Asked {
  readonly body?: Uint8Array;
  readonly signed?: boolean;
  readonly figures?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ConnectionOptions {
  /** How often a request is sent. */
  readonly attempts?: number;
  /** To wait for an answer. */
  readonly seconds?: number;
  readonly signal?: AbortSignal;
  readonly fetch?: Fetch;
  /** Seconds since 1970. */
  readonly clock?: () => number;
  readonly sleep?: (seconds: number) => Promise<void>;
  /** A number from 0 to 1, for how long it waits. */
  readonly random?: () => number;
}

const CONNECTION_OPTIONS: Names<ConnectionOptions> = {
  attempts: true,
  seconds: true,
  signal: true,
  fetch: true,
  clock: true,
  sleep: true,
  random: true,
};
const LONGEST = 86_400; // seconds: a day; timers run over after 24

/** Requests to one gateway, "https://host[:port]"; http on this machine alone. */
export class GatewayConnection {
  readonly #origin: string;
  readonly #authority: string;
  readonly #signer: Signer;
  readonly #options: Required<Omit<ConnectionOptions, "signal">> & { readonly signal: AbortSignal | null };
  #ahead = 0; // the gateway's clock, less this device's

  /** Throws InvalidInputError: `address` is no such, an option unknown or out of range. */
  constructor(address: string, signer: Signer, options: ConnectionOptions = {}) {
    const url = URL.canParse(address) ? new URL(address) : null;
    const plain = url?.protocol === "http:" && LOOPBACK.includes(url.hostname);
    if (!url || !(url.protocol === "https:" || plain) || url.pathname !== "/" || url.search || url.username) {
      throw new InvalidInputError(
        `the gateway is ${address}, expected https://host or https://host:port; http is for this ` +
          "machine alone",
      );
    }
    checkOptions(options, CONNECTION_OPTIONS);
    const { seconds = 60 } = options;
    if (!(seconds > 0 && seconds <= LONGEST)) {
      throw new InvalidInputError(`seconds is ${String(seconds)}, expected a number above 0, at most ${LONGEST}`);
    }
    this.#origin = url.origin;
    this.#authority = url.host;
    this.#signer = signer;
    this.#options = {
      attempts: checkCount(options.attempts ?? 6, "attempts"),
      seconds,
      signal: options.signal ?? null,
      fetch: options.fetch ?? ((place, init) => fetch(place, init)),
      clock: options.clock ?? (() => Date.now() / 1000),
      random: options.random ?? Math.random,
      sleep: options.sleep ?? ((seconds) => new Promise((done) => setTimeout(done, 1000 * seconds))),
    };
  }

  /** The device's public key: its name at this gateway. */
  get publicKey(): Uint8Array {
    return this.#signer.publicKey;
  }

  /**
   * The answer to one request: 200, 201 or 204, or where `headers` has an ETag 304.
   *
   * Throws RefusedError (the gateway says no, and again would not help), ArtifactError (it cannot be
   * reached, or is too busy) or CorruptArtifactError (an answer of more than 2 MiB, or of another status).
   */
  async ask(method: string, path: string, asked: Asked = {}): Promise<Answer> {
    const { attempts, signal } = this.#options;
    let said: unknown = null;
    for (let attempt = 0; attempt < attempts; attempt++) {
      if (attempt > 0) await this.wait(pause(attempt, said));
      throwIfAborted(signal);
      try {
        return await this.#once(method, path, asked);
      } catch (error) {
        throwIfAborted(signal);
        const isOver = error instanceof RefusedError
          ? !AGAIN.includes(error.status) && error.code !== "not_in_time"
          : error instanceof PocketQueryError;
        if (isOver) throw error;
        said = error;
      }
    }
    throw new ArtifactError(
      `the gateway ${this.#authority} did not answer ${attempts} times (${String(said)}); try again later`,
      { cause: said },
    );
  }

  /** Wait, and up to half as long again, so that not all devices ask at once. */
  async wait(seconds: number): Promise<void> {
    await this.#sleep(seconds * (1 + this.#options.random() / 2));
    throwIfAborted(this.#options.signal);
  }

  /** Not a moment longer than until the signal aborts. */
  #sleep(seconds: number): Promise<void> {
    const { sleep, signal } = this.#options;
    return new Promise((resolve, reject) => {
      const leave = listen(signal, reject);
      void sleep(seconds).then(resolve, reject).finally(leave);
    });
  }

  async #once(method: string, path: string, asked: Asked): Promise<Answer> {
    const { body, signed = true, figures = null, headers = {} } = asked;
    const { clock, seconds, signal } = this.#options;
    const proof = !signed
      ? {}
      : await signedHeaders(this.#signer, {
          method,
          authority: this.#authority,
          path,
          created: Math.min(LAST_CREATED, Math.max(1, Math.floor(clock() + this.#ahead))),
          nonce: crypto.getRandomValues(new Uint8Array(16)),
          figures,
          ...(body && { body }),
        });
    const controller = new AbortController();
    const leave = listen(signal, (reason) => controller.abort(reason));
    const patience = setTimeout(() => controller.abort(tooLate(seconds)), 1000 * seconds);
    let response: Response;
    let found: Uint8Array;
    try {
      response = await this.#options.fetch(this.#origin + path, {
        method,
        headers: { ...headers, ...proof },
        ...(body && { body: Uint8Array.from(body) }),
        cache: "no-store", // what is known already is told by its ETag
        credentials: "omit",
        redirect: "error", // what was signed is for this host
        referrerPolicy: "no-referrer",
        signal: controller.signal,
      });
      found = await bodyOf(response);
    } finally {
      clearTimeout(patience);
      leave();
    }
    const { status, headers: said } = response;
    const retryAfter = numberIn(said, "retry-after");
    if (TAKEN.includes(status) || (status === NOT_MODIFIED && "if-none-match" in headers)) {
      const [stage, etag] = [numberIn(said, "pocketquery-stage"), said.get("etag") ?? ""];
      return { status, body: found, etag: ETAG.test(etag) ? etag : "", stage, retryAfter };
    }
    if (status < 400) {
      throw new CorruptArtifactError(
        `the gateway answered ${method} ${path} with status ${status}, expected one of ${TAKEN.join(", ")}, or ` +
          "a refusal; is something else in its place?",
      );
    }
    const error = refusal(status, found, retryAfter);
    if (error.code === "not_in_time") this.#heed(said.get("date"));
    throw error;
  }

  /** Sign by the gateway's clock: this device's is off. */
  #heed(date: string | null): void {
    const there = Date.parse(date ?? "") / 1000;
    if (Number.isFinite(there)) this.#ahead = there - this.#options.clock();
  }
}

/** Tells the reason of a signal that aborts, or has; what it returns takes its listener off. */
function listen(signal: AbortSignal | null, tell: (reason: unknown) => void): () => void {
  if (signal === null) return () => undefined;
  const abort = (): void => tell(reasonOf(signal));
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort);
  return () => signal.removeEventListener("abort", abort);
}

function tooLate(seconds: number): Error {
  const error = new Error(`no answer within ${seconds} seconds`);
  error.name = "TimeoutError";
  return error;
}

async function bodyOf(response: Response): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader(); // React Native's answers have no stream
  if (!reader) pieces.push(new Uint8Array(await response.arrayBuffer()));
  for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
    pieces.push(read.value);
    size += read.value.length;
    if (size > LARGEST_ANSWER) break;
  }
  const body = concatenated(pieces);
  if (body.length <= LARGEST_ANSWER) return body;
  await reader?.cancel();
  throw new CorruptArtifactError(`the gateway answered more than ${LARGEST_ANSWER} bytes`);
}

function refusal(status: number, body: Uint8Array, wait: number): RefusedError {
  try {
    const { code, detail } = JSON.parse(decodeUtf8(body)) as { code: string; detail: string };
    const word = /^[a-z_]{1,40}$/.test(String(code)) ? String(code) : "";
    return new RefusedError(status, word, String(detail).slice(0, 500), wait);
  } catch {
    return new RefusedError(status, "", "it does not say why", wait);
  }
}

function numberIn(headers: Headers, name: string): number {
  const text = headers.get(name) ?? "";
  return /^[0-9]{1,5}$/.test(text) ? Number(text) : 0;
}

/** What the gateway says, or a second that doubles. */
function pause(attempt: number, said: unknown): number {
  const asked = said instanceof RefusedError ? said.retryAfter : 0;
  return Math.max(Math.min(LONGEST_ASKED, asked), Math.min(LONGEST_PAUSE, 2 ** (attempt - 1)));
}
