/** Files under an address, for pages and everything else that has `fetch`. */

import { platformSignal, throwIfAborted } from "../platform/cancelling.js";
import { concatenated } from "./bytes.js";
import { ArtifactError, type ArtifactNotFoundError, InvalidInputError } from "../errors.js";
import { type FileSource, missingFile, type RangeOptions, type ReadOptions } from "./source.js";

/** `fetch` itself, or one that adds headers or a cache. */
export type Fetch = (address: string, init?: RequestInit) => Promise<Response>;

/** The address of each file by the file's name, where a bundler or a server gave the files other names. */
export type Addresses = Readonly<Record<string, string | URL>>;

/**
 * Every request is a GET of one file, so that a service worker's cache can answer it: no HEAD, and none
 * for a folder.
 */
export class FetchSource implements FileSource {
  readonly name: string;
  /** The same for every version that is served there: the folder without what it asks for. */
  readonly place: string;
  /** A file's address; null where no file has the name. */
  readonly #addressOf: (file: string) => string | null;
  readonly #addresses: Addresses | null;
  readonly #fetch: Fetch;

  /**
   * `base`: the folder's address, or each file's; a relative one is taken from the page's. What a folder's
   * asks for behind a "?" is asked for with each file. Throws InvalidInputError: it is none.
   */
  constructor(base: string | URL | Addresses, fetcher: Fetch = (address, init) => fetch(address, init)) {
    this.#fetch = fetcher;
    const isFolder = typeof base === "string" || base instanceof URL;
    this.name = isFolder ? String(base) : "files by address";
    this.#addresses = isFolder ? null : base;
    if (isFolder) {
      const folder = absolute(this.name);
      this.place = `${folder.origin}${folder.pathname}`.replace(/\/$/, "");
      if (!folder.pathname.endsWith("/")) folder.pathname += "/";
      this.#addressOf = (file) => {
        const address = new URL(encodeURIComponent(file), folder);
        address.search = folder.search;
        return address.href;
      };
    } else {
      this.place = this.name;
      const all = new Map(Object.entries(base).map(([file, address]) => [file, absolute(String(address)).href]));
      this.#addressOf = (file) => all.get(file) ?? null;
    }
  }

  list(): Promise<string[]> {
    if (this.#addresses !== null) return Promise.resolve(Object.keys(this.#addresses));
    const reason = `${this.name}: a server does not tell which files it has; name the files`;
    return Promise.reject(new InvalidInputError(reason));
  }

  async size(file: string, options: { readonly signal?: AbortSignal } = {}): Promise<number | null> {
    const response = await this.#ask(file, options);
    if (response === null) return null;
    const size = sizeOf(response);
    // Where it is sent compressed, or in pieces, its bytes are counted.
    if (size === null) return (await this.#body(response, file, options)).byteLength;
    await response.body?.cancel();
    return size;
  }

  async read(file: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const response = await this.#ask(file, initOf(options));
    if (response === null) throw this.#missing(file);
    return this.#body(response, file, options);
  }

  async readRange(
    file: string,
    begin: number,
    end: number,
    options: RangeOptions = {},
  ): Promise<Uint8Array> {
    if (end <= begin) return new Uint8Array();
    const headers = { range: `bytes=${begin}-${end - 1}` };
    const response = await this.#ask(file, { headers, ...initOf(options) }, 416);
    if (response === null) throw this.#missing(file);
    if (response.status === 416) return new Uint8Array(); // the file ends before
    if (response.status === 206) {
      return this.#body(response, file, { ...options, limit: end - begin });
    }
    return this.#body(response, file, { ...options, limit: end }, begin); // a server that knows no ranges
  }

  /** The server's answer; null where it has no such file. */
  async #ask(file: string, init: RequestInit, accepted?: number): Promise<Response | null> {
    const address = this.#addressOf(file);
    if (address === null) return null;
    let response: Response;
    try {
      const signal = init.signal ? { signal: platformSignal(init.signal) } : {};
      response = address.startsWith("data:") ? inlined(address) : await this.#fetch(address, { ...init, ...signal });
    } catch (error) {
      throwIfAborted(init.signal);
      const isOnDisk = address.startsWith("file:");
      throw this.#failed(file, isOnDisk ? new Error("fetch reads no files of a disk; in Node take pocketquery/node") : error);
    }
    if (response.ok || response.status === accepted) return response;
    if (response.status === 404 || response.status === 410) return null;
    const reason =
      response.type === "opaque"
        ? "it is of another origin and was asked for, or cached, without CORS"
        : `HTTP ${response.status} ${response.statusText}`;
    throw this.#failed(file, new Error(reason));
  }

  /** The answer's bytes behind its first `skipped`. */
  async #body(response: Response, file: string, options: ReadOptions, skipped = 0): Promise<Uint8Array> {
    const limit = options.limit ?? Number.POSITIVE_INFINITY;
    const size = sizeOf(response);
    const chunks: Uint8Array[] = [];
    try {
      // React Native's answers have no stream.
      const reader = response.body?.getReader() ?? null;
      if (reader === null) chunks.push(new Uint8Array(await response.arrayBuffer()));
      for (let bytes = 0; reader !== null; ) {
        const { done, value } = await reader.read();
        if (done) break;
        if (bytes >= limit) {
          await reader.cancel(); // only now: what is given up before its end is not cached
          break;
        }
        chunks.push(value);
        const part = value.subarray(Math.max(0, skipped - bytes), limit - bytes);
        if (part.byteLength > 0) options.onChunk?.(part);
        bytes += value.byteLength;
        options.onBytes?.(Math.max(0, Math.min(bytes, limit) - skipped), size === null ? undefined : size - skipped);
      }
    } catch (error) {
      throwIfAborted(options.signal);
      throw this.#failed(file, error);
    }
    const data = concatenated(chunks).subarray(0, options.limit);
    if (isWebPage(response, data)) {
      const reason =
        "the answer is a web page; either the server has no such file and sends its start page instead, " +
        "or a network asks to sign in";
      throw this.#failed(file, new Error(reason));
    }
    return data.subarray(skipped);
  }

  #missing(file: string): ArtifactNotFoundError {
    const address = this.#addresses && this.#addressOf(file);
    return missingFile(this.name, address ? `${file} (${address.slice(0, 200)})` : file);
  }

  #failed(file: string, error: unknown): ArtifactError {
    const address = this.#addresses === null ? "" : ` from ${this.#addressOf(file)?.slice(0, 200)}`;
    return new ArtifactError(
      `${this.name}: ${file} could not be fetched${address}: ${(error as Error).message}; try again`,
      { cause: error },
    );
  }
}

/**
 * `address` as a whole one, for this page or worker.
 * @throws InvalidInputError it is none
 */
export function absolute(address: string): URL {
  const page = (globalThis as { location?: { href?: string } }).location?.href;
  try {
    return new URL(address, page);
  } catch {
    throw new InvalidInputError(
      `${address}: no address, expected https://host/folder; a relative one is for pages`,
    );
  }
}

/** What a request listens to, and whether it passes over what the browser has. */
function initOf({ signal, fresh }: RangeOptions): RequestInit {
  return { ...(signal && { signal }), ...(fresh && { cache: "no-cache" }) };
}

/** What a "data:" address holds: bundlers inline small files. Not fetched, which a page's policy may forbid. */
function inlined(address: string): Response {
  const comma = address.indexOf(",");
  const text = decodeURIComponent(address.slice(comma + 1));
  const isBase64 = address.slice(0, comma).endsWith(";base64");
  return new Response(isBase64 ? Uint8Array.from(atob(text), (byte) => byte.charCodeAt(0)) : text);
}

function isWebPage({ headers }: Response, data: Uint8Array): boolean {
  if (!/^text\/html/i.test(headers.get("content-type") ?? "")) return false;
  return /^\s*<(!doctype|html|head|body|script|meta|!--)/i.test(String.fromCharCode(...data.subarray(0, 256)));
}

/** Bytes of the answer as its server states them; null where it is sent compressed, or in pieces. */
function sizeOf({ headers }: Response): number | null {
  const length = headers.get("content-length");
  return length === null || headers.has("content-encoding") ? null : Number(length);
}
