/**
 * A source whose files are kept in a cache.
 *
 *     <SHA-256>-<piece>   bytes of a file
 *     head-<place>        the files of the version in force, as JSON: {name: {sha256, bytes}}
 *     next-<place>        the same of a version that is being fetched
 *
 * The head (manifest.json, index.json) is asked of the source each time, so that a new version is seen; a server
 * that knows it unchanged answers without its bytes. Where the source does not answer, the version that is kept is
 * opened. Everything else is fetched where it is not there. A version is in force when it was opened once: until then
 * the one before stays, so that a download that broke off takes nothing away.
 */

import { isNamed, type Named, PieceWriter, readPieces, readWhole, removePieces } from "./pieces.js";
import { sha256 } from "../../platform/hashing.js";
import { ArtifactNotFoundError, InvalidInputError } from "../../errors.js";
import { throwIfAborted } from "../../platform/cancelling.js";
import { decodeUtf8, encodeUtf8 } from "../../utf8.js";
import { concatenated } from "../bytes.js";
import { FetchSource } from "../fetch.js";
import { handed } from "../hashed.js";
import type { FileSource, RangeOptions, ReadOptions } from "../source.js";
import { ZipSource } from "../zip.js";
import type { CacheOption, FileCache } from "./file_cache.js";
import { IndexedDbCache } from "./indexed_db_cache.js";

type Names = Record<string, Named>;

/** The cache that an option stands for. */
export function openCache(cache: CacheOption): FileCache {
  if (typeof cache === "object") return cache;
  return typeof cache === "string" ? new IndexedDbCache(cache) : new IndexedDbCache();
}

export class CachedSource implements FileSource {
  readonly name: string;
  readonly #cache: Lenient;
  /** The version that is kept, as far as it is readable. */
  #kept: Names = {};
  /** The version that is being read; null where its files have no fixed content. */
  #names: Names | null = null;
  /** What the head names: files that may be large. The others are read whole with the head. */
  #listed: ReadonlySet<string> = new Set();
  #small = new Map<string, Uint8Array>();
  #isNew = false;
  #announced: Promise<void> | null = null;
  #writing: Promise<unknown>[] = [];

  /** @throws InvalidInputError `source` is a zip, which has to be fetched whole */
  constructor(
    private readonly source: FileSource,
    private readonly head: string,
    cache: FileCache,
  ) {
    if (source instanceof ZipSource) {
      throw new InvalidInputError(
        `${source.name}: a cache keeps the files of a folder, and this is a zip, which is fetched whole each time; ` +
          "serve its files unpacked, or leave out the cache",
      );
    }
    this.name = source.name;
    this.#cache = new Lenient(cache, source.name);
  }

  list(): Promise<string[]> {
    return this.source.list();
  }

  size(file: string, options?: { readonly signal?: AbortSignal }): Promise<number | null> {
    return this.source.size(file, options);
  }

  readRange(file: string, begin: number, end: number, options?: RangeOptions): Promise<Uint8Array> {
    return this.source.readRange(file, begin, end, options);
  }

  async read(file: string, options: ReadOptions = {}): Promise<Uint8Array> {
    throwIfAborted(options.signal);
    if (file === this.head) return cut(await this.#readHead(options), options);
    const names = this.#names;
    if (names === null) return this.source.read(file, options);
    const named = names[file];
    if (this.#listed.has(file) && named !== undefined) return this.#readListed(file, named, options);
    return this.#readSmall(file, names, options);
  }

  /** Once all was read and found right: the version is in force, and what is of no version is removed. */
  async settle(): Promise<void> {
    await Promise.all(this.#writing);
    if (this.#names === null || !this.#isNew || this.#cache.isBroken) return;
    const names: Names = { ...this.#names };
    for (const [file, bytes] of this.#small) {
      names[file] = { sha256: await sha256(bytes), bytes: bytes.length };
      await new PieceWriter(this.#cache, names[file], 0).add(bytes);
    }
    const place = await this.#place();
    await this.#cache.set(`head-${place}`, encodeUtf8(JSON.stringify(names)));
    await this.#cache.delete(`next-${place}`);
    await removeUnnamed(this.#cache);
  }

  async #readHead(options: ReadOptions): Promise<Uint8Array> {
    this.#kept = readNames(await this.#cache.get(`head-${await this.#place()}`));
    const kept = this.#kept[this.head];
    let bytes: Uint8Array;
    try {
      bytes = await this.source.read(this.head, { ...options, fresh: true });
    } catch (error) {
      throwIfAborted(options.signal);
      if (error instanceof ArtifactNotFoundError || kept === undefined) throw error;
      const found = await readWhole(this.#cache, kept);
      if (found === null) throw error;
      bytes = found;
    }
    const hash = await sha256(bytes);
    this.#isNew = hash !== kept?.sha256;
    const listed = listedIn(bytes);
    this.#listed = new Set(Object.keys(listed ?? {}));
    this.#names = listed && { ...(this.#isNew ? {} : this.#kept), ...listed };
    this.#small = new Map([[this.head, bytes]]);
    return bytes;
  }

  /** A file that the head names: as much of it as is there, and the rest of the source. */
  async #readListed(file: string, named: Named, options: ReadOptions): Promise<Uint8Array> {
    const begin = await readPieces(this.#cache, named);
    if (begin.length > 0) {
      const isWhole = begin.length === named.bytes;
      const bytes = isWhole ? begin : await this.#fetch(file, named, begin, options);
      if (await isRight(bytes, named)) {
        if (isWhole) options.onBytes?.(bytes.length, bytes.length);
        return whole(bytes, named, options);
      }
      await this.#forget(named); // changed on the device, or the server's is another version
    }
    const none = new Uint8Array();
    const bytes = await this.#fetch(file, named, none, options);
    if (await isRight(bytes, named)) return whole(bytes, named, options);
    await this.#forget(named);
    // The browser may have given an older file that it had itself.
    return cut(await this.#fetch(file, named, none, { ...options, fresh: true }), options);
  }

  /** What `begin` is the beginning of, with the rest fetched and kept. */
  async #fetch(file: string, named: Named, begin: Uint8Array, options: ReadOptions): Promise<Uint8Array> {
    await this.#announce();
    const writer = new PieceWriter(this.#cache, named, begin.length);
    let arrived = 0;
    const add = (chunk: Uint8Array): void => {
      arrived += chunk.length;
      this.#writing.push(writer.add(chunk));
    };
    const onBytes = (bytes: number): void => options.onBytes?.(begin.length + bytes, named.bytes);
    const all = { ...options, onBytes, onChunk: add };
    const bytes =
      begin.length === 0
        ? await this.source.read(file, all)
        : await this.source.readRange(file, begin.length, named.bytes, all);
    if (arrived === 0) add(bytes); // a source that hands out no parts
    return begin.length === 0 ? bytes : concatenated([begin, bytes]);
  }

  async #forget({ sha256: hash }: Named): Promise<void> {
    await Promise.all(this.#writing);
    await removePieces(this.#cache, [...(await this.#cache.keys())], (one) => one === hash);
  }

  /** Say, before the first piece is written, what it is of: so that nobody removes it. */
  #announce(): Promise<void> {
    this.#isNew = true; // or something of it was gone
    const set = async (): Promise<void> =>
      this.#cache.set(`next-${await this.#place()}`, encodeUtf8(JSON.stringify(this.#names)));
    return (this.#announced ??= set());
  }

  /** A file beside the head that it does not name (a signature): kept with it, and read again where it is another. */
  async #readSmall(file: string, names: Names, options: ReadOptions): Promise<Uint8Array> {
    const named = names[file];
    const found = this.#small.get(file) ?? (named && (await readWhole(this.#cache, named)));
    if (found) return cut(found, options);
    const bytes = await this.source.read(file, { ...options, fresh: true });
    this.#small.set(file, bytes);
    this.#isNew = true;
    return bytes;
  }

  /** A short name for the place, which is the same for all versions that lie there. */
  async #place(): Promise<string> {
    const place = this.source instanceof FetchSource ? this.source.place : this.source.name;
    return (await sha256(encodeUtf8(`${this.head} ${place}`))).slice(0, 32);
  }
}

/** A cache whose failures are a warning: from the first on nothing more is kept. */
class Lenient implements FileCache {
  isBroken = false;

  constructor(
    private readonly cache: FileCache,
    private readonly name: string,
  ) {}

  keys = (): Promise<Iterable<string>> => this.#done(() => this.cache.keys(), []);
  get = (key: string): Promise<Uint8Array | undefined> => this.#done(() => this.cache.get(key), undefined);
  set = (key: string, bytes: Uint8Array): Promise<void> => this.#done(async () => void (await this.cache.set(key, bytes)), undefined);
  delete = (key: string): Promise<void> => this.#done(async () => void (await this.cache.delete(key)), undefined);

  async #done<T>(work: () => T | Promise<T>, otherwise: T): Promise<T> {
    if (this.isBroken) return otherwise;
    try {
      return await work();
    } catch (error) {
      if (!this.isBroken) {
        console.warn(
          `${this.name}: its files cannot be kept on this device, and are fetched at each load: ${(error as Error).message}`,
        );
      }
      this.isBroken = true;
      return otherwise;
    }
  }
}

/** Remove the pieces that no version names, of any place. */
async function removeUnnamed(cache: FileCache): Promise<void> {
  const keys = [...(await cache.keys())]; // whoever begins a version meanwhile has no piece among them
  const named = new Set<string>();
  for (const key of keys.filter((one) => /^(head|next)-/.test(one))) {
    const names = readNames(await cache.get(key)); // QuickJS does not compile this within the next line
    for (const { sha256: hash } of Object.values(names)) named.add(hash);
  }
  await removePieces(cache, keys, (hash) => !named.has(hash));
}

async function isRight(bytes: Uint8Array, named: Named): Promise<boolean> {
  return bytes.length === named.bytes && (await sha256(bytes)) === named.sha256;
}

/** Bytes that are right: whoever reads all of them need not hash them again. */
function whole(bytes: Uint8Array, { sha256: hash }: Named, options: ReadOptions): Uint8Array {
  const asked = cut(bytes, options);
  return asked.length === bytes.length ? handed(asked, hash) : asked;
}

function cut(bytes: Uint8Array, { limit }: ReadOptions): Uint8Array {
  return bytes.subarray(0, limit);
}

/** The files that a cache says a version has; none where it is not readable. */
function readNames(bytes: Uint8Array | undefined): Names {
  return bytes === undefined ? {} : (namesIn(parsed(bytes)) ?? {});
}

/** The files that a head names; null where it is none, or where a writer may have changed them since. */
function listedIn(head: Uint8Array): Names | null {
  const { files, state = "sealed" } = (parsed(head) ?? {}) as { files?: unknown; state?: unknown };
  return state === "sealed" ? namesIn(files) : null;
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decodeUtf8(bytes));
  } catch {
    return null; // whoever reads it says what is wrong
  }
}

function namesIn(value: unknown): Names | null {
  if (typeof value !== "object" || value === null) return null;
  return Object.values(value).every(isNamed) ? (value as Names) : null;
}
