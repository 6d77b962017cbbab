/** Files held in memory: what a page was given, unpacked, or made itself. */

import { throwIfAborted } from "../platform/cancelling.js";
import { type FileSource, missingFile, type ReadOptions } from "./source.js";

/** The files of a map from name to bytes. The bytes are shared, not copied. */
export class MemorySource implements FileSource {
  readonly name: string;
  readonly #files: ReadonlyMap<string, Uint8Array>;

  constructor(
    files: ReadonlyMap<string, Uint8Array> | Readonly<Record<string, Uint8Array>>,
    name = "memory",
  ) {
    this.name = name;
    this.#files = files instanceof Map ? files : new Map(Object.entries(files));
  }

  async list(): Promise<string[]> {
    return [...this.#files.keys()];
  }

  async size(file: string): Promise<number | null> {
    return this.#files.get(file)?.byteLength ?? null;
  }

  async read(file: string, options: ReadOptions = {}): Promise<Uint8Array> {
    throwIfAborted(options.signal);
    const bytes = this.#bytes(file).subarray(0, options.limit);
    options.onBytes?.(bytes.byteLength);
    return bytes;
  }

  async readRange(file: string, begin: number, end: number): Promise<Uint8Array> {
    return this.#bytes(file).subarray(begin, end);
  }

  #bytes(file: string): Uint8Array {
    const bytes = this.#files.get(file);
    if (bytes === undefined) throw missingFile(this.name, file);
    return bytes;
  }
}
