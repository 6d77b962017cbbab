/** The files that a browser keeps, in IndexedDB. */

import { Connection, deleteDatabase, done, ended, explainedWithQuota } from "../../indexed_db.js";
import { DEFAULT_CACHE, type FileCache } from "./file_cache.js";

const VERSION = 1;
const STORE = "files";

/** The database `name`, which all pages and workers of a site share. */
export class IndexedDbCache implements FileCache {
  readonly name: string;
  readonly #connection: Connection;

  constructor(name = DEFAULT_CACHE) {
    this.name = name;
    this.#connection = new Connection(name, VERSION, (database) => database.createObjectStore(STORE));
  }

  async keys(): Promise<string[]> {
    return (await this.#ask("readonly", (store) => store.getAllKeys())) as string[];
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    const found: unknown = await this.#ask("readonly", (store) => store.get(key));
    return found instanceof Uint8Array ? found : undefined;
  }

  async set(key: string, bytes: Uint8Array): Promise<void> {
    await this.#ask("readwrite", (store) => store.put(bytes, key));
  }

  async delete(key: string): Promise<void> {
    await this.#ask("readwrite", (store) => store.delete(key));
  }

  /** Remove all that is kept. */
  async destroy(): Promise<void> {
    this.#connection.close();
    await deleteDatabase(this.name);
  }

  async #ask<T>(mode: IDBTransactionMode, ask: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    try {
      // A loss of power may take what was written last, and hashes tell: nothing waits for the disk.
      const transaction = (await this.#connection.opened()).transaction(STORE, mode, { durability: "relaxed" });
      const end = mode === "readwrite" ? ended(this.name, transaction) : null;
      const [found] = await Promise.all([done(ask(transaction.objectStore(STORE))), end]);
      return found;
    } catch (error) {
      throw await explainedWithQuota(this.name, error);
    }
  }
}
