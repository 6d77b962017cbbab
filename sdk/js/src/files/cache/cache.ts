/**
 * Files that stay on the device: a bundle and an index are fetched once, and read from there from then on.
 *
 * A cache is a map of names and bytes: IndexedDB's in a page or worker, a `Map`, or an object of the app's own.
 * What is in it needs no trust. Every file lies under its SHA-256 and is hashed each time it is read; what is
 * missing, cut or changed is fetched.
 */

import { InvalidInputError } from "../../errors.js";
import { kindOf } from "../../python_text.js";
import type { FileSource } from "../source.js";
import type { CacheOption, FileCache } from "./file_cache.js";

export type { CacheOption, FileCache } from "./file_cache.js";

const METHODS = ["keys", "get", "set", "delete"] as const;

/**
 * What `work` makes of `source`, whose files are kept in `cache`. `head` is the file that names the others with
 * their hashes. Once `work` is done, they are in force and those of the version before are removed.
 *
 * @throws InvalidInputError `cache` is none, or `source` is a zip
 */
export async function withCache<T>(
  source: FileSource,
  head: string,
  cache: CacheOption | undefined,
  work: (source: FileSource) => Promise<T>,
): Promise<T> {
  if (cache === undefined || cache === false) return work(source);
  checkCache(cache);
  // Imported where it is wanted, so that a page without a cache does not load it.
  const { CachedSource, openCache } = await import("./cached.js");
  const cached = new CachedSource(source, head, openCache(cache));
  const found = await work(cached);
  await cached.settle();
  return found;
}

function checkCache(cache: unknown): void {
  const found = (cache ?? {}) as Partial<FileCache>;
  if (cache === true || (typeof cache === "string" && cache !== "")) return;
  if (typeof cache !== "string" && METHODS.every((method) => typeof found[method] === "function")) return;
  throw new InvalidInputError(
    `cache is ${cache === "" ? "an empty text" : kindOf(cache)}, expected true, the name of a database, or an object with ` +
      "keys, get, set and delete, such as a Map",
  );
}
