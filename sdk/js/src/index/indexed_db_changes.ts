/**
 * Changes of an index in IndexedDB, for pages and workers: pieces in the order in which they were
 * appended. Comparing and writing are one transaction, so that no other tab writes between.
 */
import { begun, Connection, done, ended, explained } from "../indexed_db.js";
import { concatenated } from "../files/bytes.js";
import { type ChangeStore, checkWritten, type Written, writtenIn } from "./change_store.js";

const VERSION = 1;
const PIECES = "pieces";

/** Changes in the database of this name; it is made where there is none. */
export class IndexedDbChanges implements ChangeStore {
  private readonly connection: Connection;

  /** @param name of the database: one for each index */
  constructor(readonly name: string) {
    this.connection = new Connection(name, VERSION, (database) => {
      database.createObjectStore(PIECES, { autoIncrement: true });
    });
  }

  async read(): Promise<Uint8Array> {
    return concatenated(await this.transact("readonly", (all) => Promise.resolve(all)));
  }

  async append(bytes: Uint8Array, known: Written): Promise<void> {
    await this.transact("readwrite", (pieces, store) => {
      checkWritten(this.name, writtenIn(pieces), known);
      return done(store.add(Uint8Array.from(bytes)));
    });
  }

  async replace(bytes: Uint8Array, known: Written): Promise<void> {
    await this.transact("readwrite", (pieces, store) => {
      checkWritten(this.name, writtenIn(pieces), known);
      store.clear();
      return done(store.add(Uint8Array.from(bytes)));
    });
  }

  /** Close the database; another call opens it again. */
  close(): void {
    this.connection.close();
  }

  private async transact<T>(
    mode: IDBTransactionMode,
    work: (pieces: Uint8Array[], store: IDBObjectStore) => Promise<T>,
  ): Promise<T> {
    const transaction = begun(this.name, await this.connection.opened(), [PIECES], mode);
    const over = ended(this.name, transaction);
    over.catch(() => undefined); // what failed within is told first
    try {
      const store = transaction.objectStore(PIECES);
      const result = await work(await done<Uint8Array[]>(store.getAll()), store);
      await over;
      return result;
    } catch (error) {
      try {
        transaction.abort();
      } catch {
        // It is over already.
      }
      throw explained(this.name, error);
    }
  }
}
