/**
 * Files of an app, whichever module reads and writes them: react-native-fs, expo-file-system, rows of SQLite.
 *
 * docs/how-to/react-native.md fills the interface with each of them, in eight lines.
 */

import { ArtifactError, InvalidInputError, StorageFullError } from "../errors.js";
import { type FileSource, missingFile, type ReadOptions } from "../files/source.js";
import { ZipSource } from "../files/zip.js";
import { kindOf } from "../python_text.js";
import { throwIfAborted } from "../platform/cancelling.js";
import { fromBase64 } from "../platform/base64.js";

/** What reads files. A path is whatever the module takes for one. */
export interface ReadableFileSystem {
  /** A file's size in bytes; null where there is none at `path`. */
  size(path: string): Promise<number | null>;
  /** `length` bytes from `begin` on, or their base 64. Nothing beyond the file's end is asked for. */
  read(path: string, begin: number, length: number): Promise<Uint8Array | string>;
}

/** What writes them, too. Whatever fails rejects; a full disk by an error that says so (ENOSPC). */
export interface FileSystem extends ReadableFileSystem {
  /** Make the file, or put `bytes` in the place of what it has. `toBase64` gives their base 64. */
  write(path: string, bytes: Uint8Array): Promise<unknown>;
  /** Add `bytes` at the end of a file that is there. Without it a file is written anew for each change. */
  append?(path: string, bytes: Uint8Array): Promise<unknown>;
  /** Give the file at `from` the path `to`, in the place of one that may be there. */
  move(from: string, to: string): Promise<unknown>;
}

const READING = ["size", "read"] as const;
export const WRITING = [...READING, "write", "move"] as const;

/** Bytes read at once, so that an abort and the progress have their say in between. */
const CHUNK = 1 << 20;

/** Files in a folder of an app. */
export class FileSystemSource implements FileSource {
  readonly name: string;
  readonly #files: ReadableFileSystem;

  /**
   * @param folder its path, with or without a slash at its end
   * @throws InvalidInputError `files` is no file system
   */
  constructor(files: ReadableFileSystem, folder: string) {
    this.#files = checkFileSystem(files, READING);
    this.name = folder.replace(/\/$/, "");
  }

  async list(): Promise<string[]> {
    throw new InvalidInputError(`${this.name}: a file system says nothing of what is in a folder; name the file`);
  }

  async size(file: string): Promise<number | null> {
    return explained(this.#path(file), () => this.#files.size(this.#path(file)));
  }

  async read(file: string, options: ReadOptions = {}): Promise<Uint8Array> {
    return this.#span(file, 0, options.limit ?? Infinity, options);
  }

  async readRange(file: string, begin: number, end: number, options: { readonly signal?: AbortSignal } = {}): Promise<Uint8Array> {
    return this.#span(file, begin, end, options);
  }

  async #span(file: string, begin: number, end: number, options: ReadOptions): Promise<Uint8Array> {
    throwIfAborted(options.signal);
    const size = await this.size(file);
    if (size === null) throw missingFile(this.name, file);
    return readBytes(this.#files, this.#path(file), begin, Math.min(end, size), options);
  }

  #path(file: string): string {
    return `${this.name}/${file}`;
  }
}

/**
 * The bundle or index at `path`: a folder, or a zip of it where the path ends in ".zip".
 * @throws InvalidInputError `files` is no file system
 * @throws ArtifactNotFoundError, CorruptArtifactError the zip is not there, or none
 */
export async function openSource(files: ReadableFileSystem, path: string): Promise<FileSource> {
  if (!path.endsWith(".zip")) return new FileSystemSource(files, path);
  const slash = path.lastIndexOf("/");
  return ZipSource.open(new FileSystemSource(files, path.slice(0, Math.max(slash, 0))), path.slice(slash + 1), path);
}

/** The bytes from `begin` to before `end`, which is in the file; fewer where it became shorter meanwhile. */
export async function readBytes(
  files: ReadableFileSystem,
  path: string,
  begin: number,
  end: number,
  { signal, onBytes }: ReadOptions = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(Math.max(0, end - begin));
  let done = 0;
  while (done < bytes.length) {
    const length = Math.min(CHUNK, bytes.length - done);
    const found = await explained(path, () => files.read(path, begin + done, length));
    throwIfAborted(signal);
    const some = typeof found === "string" ? fromBase64(found) : found;
    if (!(some instanceof Uint8Array) || some.length > length) {
      const what = some instanceof Uint8Array ? `${some.length} bytes` : kindOf(some);
      throw new InvalidInputError(`${path}: the file system's read gave ${what}, expected ${length} bytes or their base 64`);
    }
    if (some.length === 0) break;
    bytes.set(some, done);
    done += some.length;
    onBytes?.(done);
  }
  return bytes.subarray(0, done);
}

/** `value`, where it has these methods. Throws InvalidInputError. */
export function checkFileSystem<T extends ReadableFileSystem>(value: T, methods: readonly (keyof FileSystem)[]): T {
  const missing = methods.find((method) => typeof (value as Partial<FileSystem> | null)?.[method] !== "function");
  if (missing === undefined) return value;
  throw new InvalidInputError(
    `the file system is ${kindOf(value)} without ${missing}, expected an object with ${methods.join(", ")}: see docs/how-to/react-native.md`,
  );
}

/** What `work` gives; its error as an ArtifactError that names the path, a StorageFullError where there is no room. */
export async function explained<T>(path: string, work: () => Promise<T>, consequence = ""): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code, message = String(error) } = (error ?? {}) as { code?: unknown; message?: string };
    const isFull = /ENOSPC|EDQUOT|no space left|disk (is )?full|SQLITE_FULL|NSFileWriteOutOfSpace/i.test(`${String(code)} ${message}`);
    throw new (isFull ? StorageFullError : ArtifactError)(`${path}: ${message}${consequence}`, { cause: error });
  }
}
