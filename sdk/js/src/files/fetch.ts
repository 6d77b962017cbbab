/** Files under an address, for pages and everything else that has `fetch`. */

import { throwIfAborted } from "../cancelling.js";
import { concatenated } from "./bytes.js";
import { ArtifactError, InvalidInputError } from "../errors.js";
import { type FileSource, missingFile, type ReadOptions } from "./source.js";

/** `fetch` itself, or one that adds headers or a cache. */
export type Fetch = (address: string, init?: RequestInit) => Promise<Response>;

export class FetchSource implements FileSource {
  readonly name: string;
  readonly #base: URL;
  readonly #fetch: Fetch;

  /**
   * `base`: the folder's address; a relative one is taken from the page's. What it asks for behind a "?" is
   * asked for with each file. Throws InvalidInputError: it is none.
   */
  constructor(base: string | URL, fetcher: Fetch = (address, init) => fetch(address, init)) {
    const page = (globalThis as { location?: { href?: string } }).location?.href;
    this.name = String(base);
    try {
      this.#base = new URL(this.name, page);
    } catch {
      throw new InvalidInputError(
        `${this.name}: no address, expected https://host/folder; a relative one is for pages`,
      );
    }
    if (!this.#base.pathname.endsWith("/")) this.#base.pathname += "/";
    this.#fetch = fetcher;
  }

  list(): Promise<string[]> {
    const reason = `${this.name}: a server does not tell which files it has; name the files`;
    return Promise.reject(new InvalidInputError(reason));
  }

  async size(file: string, options: { readonly signal?: AbortSignal } = {}): Promise<number | null> {
    const response = await this.#ask(file, { method: "HEAD", ...options });
    if (response === null) return null;
    const size = sizeOf(response);
    if (size !== null) return size;
    return (await this.read(file, options)).byteLength; // it is sent compressed, or in pieces
  }

  async read(file: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const { signal } = options;
    const response = await this.#ask(file, signal ? { signal } : {});
    if (response === null) throw missingFile(this.name, file);
    return this.#body(response, file, options);
  }

  async readRange(
    file: string,
    begin: number,
    end: number,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<Uint8Array> {
    if (end <= begin) return new Uint8Array();
    const headers = { range: `bytes=${begin}-${end - 1}` };
    const response = await this.#ask(file, { headers, ...options }, 416);
    if (response === null) throw missingFile(this.name, file);
    if (response.status === 416) return new Uint8Array(); // the file ends before
    if (response.status === 206) {
      return this.#body(response, file, { ...options, limit: end - begin });
    }
    return (await this.#body(response, file, { ...options, limit: end })).subarray(begin);
  }

  /** The server's answer; null where it has no such file. */
  async #ask(file: string, init: RequestInit, accepted?: number): Promise<Response | null> {
    let response: Response;
    try {
      const address = new URL(encodeURIComponent(file), this.#base);
      address.search = this.#base.search;
      response = await this.#fetch(address.href, init);
    } catch (error) {
      throwIfAborted(init.signal);
      throw this.#failed(file, error);
    }
    if (response.ok || response.status === accepted) return response;
    if (response.status === 404 || response.status === 410) return null;
    throw this.#failed(file, new Error(`HTTP ${response.status} ${response.statusText}`));
  }

  async #body(response: Response, file: string, options: ReadOptions): Promise<Uint8Array> {
    const limit = options.limit ?? Number.POSITIVE_INFINITY;
    const size = sizeOf(response);
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    try {
      // React Native's answers have no stream.
      const reader = response.body?.getReader() ?? null;
      if (reader === null) chunks.push(new Uint8Array(await response.arrayBuffer()));
      while (reader !== null && bytes < limit) {
        const { done, value } = await reader.read();
        if (done) break;
        chunks.push(value);
        bytes += value.byteLength;
        options.onBytes?.(Math.min(bytes, limit), size ?? undefined);
      }
      if (bytes >= limit) await reader?.cancel();
    } catch (error) {
      throwIfAborted(options.signal);
      throw this.#failed(file, error);
    }
    return concatenated(chunks).subarray(0, options.limit);
  }

  #failed(file: string, error: unknown): ArtifactError {
    return new ArtifactError(
      `${this.name}: ${file} could not be fetched: ${(error as Error).message}; try again`,
      { cause: error },
    );
  }
}

/** Bytes of the answer as its server states them; null where it is sent compressed, or in pieces. */
function sizeOf({ headers }: Response): number | null {
  const length = headers.get("content-length");
  return length === null || headers.has("content-encoding") ? null : Number(length);
}
