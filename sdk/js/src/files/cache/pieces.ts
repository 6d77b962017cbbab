/** The bytes of files in a cache: by SHA-256, in pieces, so that a download that broke off goes on where it ended. */

import { sha256 } from "../../platform/hashing.js";
import { concatenated, copied } from "../bytes.js";
import type { FileCache } from "./file_cache.js";

/** Bytes of a piece; a file's last one may have fewer. */
const PIECE = 1 << 19;
/** Pieces that are asked for side by side. */
const AT_ONCE = 32;

/** A file by its hash and its size in bytes. */
export interface Named {
  readonly sha256: string;
  readonly bytes: number;
}

const HASH = /^[0-9a-f]{64}$/;

/** Whether `value` can name a file. */
export function isNamed(value: unknown): value is Named {
  const { sha256: hash, bytes } = (value ?? {}) as Partial<Named>;
  return typeof hash === "string" && HASH.test(hash) && Number.isSafeInteger(bytes) && (bytes as number) >= 0;
}

/** What is there of the file from its beginning, up to the first piece that is missing or of another length. */
export async function readPieces(cache: FileCache, { sha256: hash, bytes }: Named): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for (let first = 0; first * PIECE < bytes; first += AT_ONCE) {
    const count = Math.min(AT_ONCE, Math.ceil(bytes / PIECE) - first);
    const found = await Promise.all(Array.from({ length: count }, (_, i) => cache.get(keyOf(hash, first + i))));
    for (const piece of found) {
      const isWhole = piece?.length === Math.min(PIECE, bytes - pieces.length * PIECE);
      if (!isWhole) return concatenated(pieces);
      pieces.push(piece as Uint8Array);
    }
  }
  return concatenated(pieces);
}

/** The whole file, where all of it is there and has its hash; null where not. */
export async function readWhole(cache: FileCache, named: Named): Promise<Uint8Array | null> {
  const bytes = await readPieces(cache, named);
  return bytes.length === named.bytes && (await sha256(bytes)) === named.sha256 ? bytes : null;
}

/** Remove, of these keys, the pieces of the files whose hash is to go. */
export async function removePieces(
  cache: FileCache,
  keys: readonly string[],
  isToGo: (hash: string) => boolean,
): Promise<void> {
  for (const key of keys) {
    const [hash = ""] = key.split("-", 1);
    if (HASH.test(hash) && isToGo(hash)) await cache.delete(key);
  }
}

/** Writes a file as it arrives, a piece at a time. */
export class PieceWriter {
  #next: number;
  #waiting: Uint8Array[] = [];
  #length = 0;

  /** `begin`: bytes that are there already, of whole pieces. */
  constructor(
    private readonly cache: FileCache,
    private readonly named: Named,
    begin: number,
  ) {
    this.#next = begin / PIECE;
  }

  /** Take the bytes that come next. */
  async add(chunk: Uint8Array): Promise<void> {
    this.#waiting.push(chunk);
    this.#length += chunk.length;
    const left = this.named.bytes - this.#next * PIECE;
    if (this.#length < Math.min(PIECE, left)) return;
    const bytes = concatenated(this.#waiting);
    const writes: unknown[] = [];
    let at = 0;
    for (let end = this.#end(at); end <= bytes.length && end > at; end = this.#end(at)) {
      writes.push(this.cache.set(keyOf(this.named.sha256, this.#next++), copied(bytes, at, end)));
      at = end;
    }
    this.#waiting = [bytes.subarray(at)];
    this.#length = bytes.length - at;
    await Promise.all(writes);
  }

  /** Where the next piece ends, when it begins at `at` of what is waiting. */
  #end(at: number): number {
    return at + Math.max(0, Math.min(PIECE, this.named.bytes - this.#next * PIECE));
  }
}

const keyOf = (hash: string, piece: number): string => `${hash}-${piece}`;
