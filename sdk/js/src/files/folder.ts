/** The files of a folder, for Node and Electron's main process. */

import { open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { throwIfAborted } from "../platform/cancelling.js";
import { CorruptArtifactError } from "../errors.js";
import { type FileSource, missingFile, type ReadOptions } from "./source.js";

/** Bytes read at once, so that an abort and the progress have their say in between. */
const CHUNK = 1 << 22;

/** A link to a plain file is followed, as hub caches lay folders out so; a pipe or a device is refused. */
export class FolderSource implements FileSource {
  readonly name: string;

  constructor(path: string) {
    this.name = path;
  }

  async list(): Promise<string[]> {
    const entries = await readdir(this.name, { withFileTypes: true });
    return entries.filter((entry) => entry.isFile() || entry.isSymbolicLink()).map((entry) => entry.name);
  }

  async size(file: string): Promise<number | null> {
    try {
      const found = await stat(join(this.name, file));
      if (found.isFile()) return found.size;
    } catch (error) {
      if (isMissing(error)) return null;
      throw error;
    }
    throw new CorruptArtifactError(
      `${join(this.name, file)}: found a folder, a pipe or a device, expected a plain file`,
    );
  }

  async read(file: string, options: ReadOptions = {}): Promise<Uint8Array> {
    return this.#span(file, 0, options.limit ?? Number.POSITIVE_INFINITY, options);
  }

  async readRange(
    file: string,
    begin: number,
    end: number,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<Uint8Array> {
    return this.#span(file, begin, end, options);
  }

  async #span(file: string, begin: number, end: number, options: ReadOptions): Promise<Uint8Array> {
    throwIfAborted(options.signal);
    const size = await this.size(file);
    if (size === null) throw missingFile(this.name, file);
    const bytes = new Uint8Array(Math.max(0, Math.min(end, size) - begin));
    const handle = await open(join(this.name, file));
    let done = 0;
    try {
      while (done < bytes.length) {
        throwIfAborted(options.signal);
        const length = Math.min(CHUNK, bytes.length - done);
        const { bytesRead } = await handle.read(bytes, done, length, begin + done);
        if (bytesRead === 0) break; // it became shorter meanwhile
        done += bytesRead;
        options.onBytes?.(done);
      }
    } finally {
      await handle.close();
    }
    return bytes.subarray(0, done);
  }
}

function isMissing(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === "ENOENT" || code === "ENOTDIR";
}
