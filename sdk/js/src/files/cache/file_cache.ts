/** What keeps files on a device: IndexedDB, a `Map`, or an object of the app's own. */

/**
 * Where files are kept. Keys are plain: digits, lower-case letters, "-", at most 80 characters; values have at
 * most 512 KiB. `set` puts a value in the place of another in one step. A `Map` is one that keeps them in memory.
 * What a method throws is a warning, and the files are fetched as if there were no cache.
 */
export interface FileCache {
  keys(): Iterable<string> | Promise<Iterable<string>>;
  get(key: string): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  set(key: string, bytes: Uint8Array): unknown;
  delete(key: string): unknown;
}

/** true: the IndexedDB database {@link DEFAULT_CACHE}; a text: the one of that name; false: none. */
export type CacheOption = boolean | string | FileCache;

export const DEFAULT_CACHE = "pocketquery files";
