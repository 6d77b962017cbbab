/**
 * A query store in IndexedDB: for pages and workers. One transaction at a time, also with other tabs.
 *
 * What is deleted is gone for every reader at once. What a browser's files keep of freed blocks is
 * out of reach of a page: that is what the device's encryption is for.
 */

import { begun, Connection, deleteDatabase, done, ended, explained } from "../indexed_db.js";
import { StorageFullError } from "../errors.js";
import { type Change, changed, changes, checkKept, type Kept, newState, type Row, type StoreBackend, type StoreState } from "./backend.js";

const VERSION = 1;
const TABLES = ["state", "queries", "made"];
const ONE = "state"; // the only key of its table

/** The store in the database of this name. */
export class IndexedDbBackend implements StoreBackend {
  readonly #connection: Connection;

  constructor(readonly name = "pocketquery-queries") {
    this.#connection = new Connection(name, VERSION, (database) => {
      database.createObjectStore("state");
      database.createObjectStore("queries", { keyPath: "number" });
      database.createObjectStore("made");
    });
  }

  async transact<T>(work: (kept: Kept) => Change<T>): Promise<T> {
    let last: { kept: Kept; change: Change<T> } | null = null;
    try {
      return await this.#transact((kept) => {
        const change = work(kept);
        last = { kept, change };
        return change;
      });
    } catch (error) {
      const tried = last as { kept: Kept; change: Change<T> } | null;
      if (!tried?.change.erases || !(error instanceof StorageFullError)) throw error;
      return this.#eraseWithoutSpace(work, tried.kept, tried.change);
    }
  }

  /** `work` is told, too, whether the store is new. */
  async #transact<T>(work: (kept: Kept, isNew: boolean) => Change<T>): Promise<T> {
    const database = await this.#connection.opened();
    const transaction = begun(this.name, database, TABLES, "readwrite");
    const over = ended(this.name, transaction);
    over.catch(() => undefined); // what failed within is told first
    const [states, queries, made] = TABLES.map((name) => transaction.objectStore(name)) as [
      IDBObjectStore, IDBObjectStore, IDBObjectStore,
    ];
    try {
      const [state, rows, names, values] = await Promise.all([
        done<StoreState | undefined>(states.get(ONE)),
        done<Row[]>(queries.getAll()),
        done(made.getAllKeys()),
        done<Uint8Array[]>(made.getAll()),
      ]);
      const known = new Map(names.map((name, i) => [String(name), values[i] as Uint8Array]));
      const kept = checkKept({ state: state ?? newState(), rows, made: known }, this.name);
      const change = work(kept, state === undefined);
      if (changes(change)) {
        states.put(change.state ?? kept.state, ONE);
        for (const number of change.remove ?? []) queries.delete(number);
        for (const row of change.put ?? []) queries.put(row);
        if (change.made === null) made.clear();
        for (const [name, bytes] of change.made ?? []) {
          if (bytes === null) made.delete(name);
          else made.put(bytes, name);
        }
      }
      await over;
      return change.result;
    } catch (error) {
      try {
        transaction.abort();
      } catch {
        // It is over already.
      }
      throw explained(this.name, error);
    }
  }

  /**
   * A browser without space refuses every transaction that writes, and forgetting takes one. So the
   * database is removed, which needs no space, and what stays is written anew, or `work` done on what
   * another tab, which may have erased too, made of it meanwhile; where even that cannot be, the
   * store is empty and without consent: who erases would rather lose than keep.
   */
  async #eraseWithoutSpace<T>(work: (kept: Kept) => Change<T>, kept: Kept, change: Change<T>): Promise<T> {
    await this.destroy();
    const { state, rows, made } = changed(kept, change);
    try {
      return await this.#transact((found, isNew) => {
        return isNew ? { result: change.result, state, put: rows, made } : work(found);
      });
    } catch (error) {
      if (!(error instanceof StorageFullError)) throw error;
      await this.destroy();
      return change.result;
    }
  }

  async destroy(): Promise<void> {
    this.close();
    await deleteDatabase(this.name);
  }

  close(): void {
    this.#connection.close();
  }
}
