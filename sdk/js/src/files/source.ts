/**
 * Named files in one flat place, read alike whether they lie in a folder, on a server, in memory or
 * in a zip. A bundle and an index are read through this and nothing else, so that a platform with
 * another kind of storage brings one object.
 */

import { ArtifactNotFoundError, InvalidInputError } from "../errors.js";
import { kindOf } from "../python_text.js";

/** How a file is read. */
export interface ReadOptions {
  /** Read at most so many bytes; a longer file gives its first ones. */
  readonly limit?: number;
  /** Ends the reading with its reason. */
  readonly signal?: AbortSignal;
  /** Told how many bytes have arrived so far, of this file, and of how many where the place says so. */
  readonly onBytes?: (bytes: number, size?: number) => void;
  /**
   * Given the file's bytes as they arrive, one part after the other. A source need not know it: then they are
   * taken of what it returns.
   */
  readonly onChunk?: (chunk: Uint8Array) => void;
  /** Ask the server, whatever a browser has of an earlier answer. A source need not know it. */
  readonly fresh?: boolean;
}

/** How a part of a file is read. */
export type RangeOptions = Omit<ReadOptions, "limit">;

/** Where named files lie. Names are plain: no folders, no "..". */
export interface FileSource {
  /** How an error calls the place: a path, an address. */
  readonly name: string;

  /** The names of the files there, in no order. Throws InvalidInputError where the place cannot tell. */
  list(): Promise<string[]>;

  /** The file's size in bytes; null where it is not there. */
  size(file: string, options?: { readonly signal?: AbortSignal }): Promise<number | null>;

  /**
   * The whole file, or its first `limit` bytes. The bytes may be shared with the source: they are
   * read and never written to.
   *
   * Throws ArtifactNotFoundError where it is not there.
   */
  read(file: string, options?: ReadOptions): Promise<Uint8Array>;

  /**
   * The bytes from `begin` to before `end`; fewer where the file ends before.
   *
   * Throws ArtifactNotFoundError where it is not there.
   */
  readRange(
    file: string,
    begin: number,
    end: number,
    options?: RangeOptions,
  ): Promise<Uint8Array>;
}

/** What has arrived of a bundle or an index so far. */
export interface Progress {
  /** The file that is being read. */
  readonly file: string;
  /** Bytes of this file so far. */
  readonly bytes: number;
  /** Of how many: as the manifest states it, or as its server does; null where nobody does. */
  readonly size: number | null;
}

const METHODS = ["list", "size", "read", "readRange"] as const;

/**
 * `place`, where files can be read from it; an error calls it `name`.
 * @throws InvalidInputError it is no FileSource
 */
export function checkSource(place: unknown, name: string): FileSource {
  const found = (place ?? {}) as Partial<FileSource>;
  if (METHODS.every((method) => typeof found[method] === "function")) return place as FileSource;
  throw new InvalidInputError(
    `${name} is ${kindOf(place)}, expected a FileSource: new FetchSource(address) on a page, ` +
      "new FolderSource(path) of pocketquery/node, new MemorySource(files)",
  );
}

/** The error of a file that is not there. */
export function missingFile(source: string, file: string): ArtifactNotFoundError {
  return new ArtifactNotFoundError(
    `${source}: ${file} is missing; fetch or export the artefact again`,
  );
}
