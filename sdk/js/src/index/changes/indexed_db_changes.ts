/**
 * Changes of an index in IndexedDB, for pages and workers: each record in a row of its own, in the
 * order in which they were appended. Comparing and writing are one transaction, so that no other tab
 * writes between.
 *
 * A document is so deleted by removing its row, which no browser refuses for want of room. But browsers
 * give the room of removed rows back when they tidy their files, which may be later; so a reserve lies
 * beside the records, and goes with rows that are removed because the storage is full.
 */
import { concatenated } from "../../files/bytes.js";
import { begun, Connection, done, ended, explainedWithQuota } from "../../indexed_db.js";
import { recordsIn } from "./change_log.js";
import {
  changedElsewhere,
  type ChangeStore,
  checkWritten,
  type Edit,
  NOTHING_WRITTEN,
  type Written,
  writtenIn,
} from "./change_store.js";

const VERSION = 1;
const RECORDS = "records";
const NAMED = 2; // the first records, of which the second has the log's name: never Blobs
const RESERVE = "reserve";
const RESERVED_BYTES = 1 << 17; // beyond 64 KiB Chromium keeps a value in a file, which goes with its row
const WRITES_BETWEEN = 100; // attempts to have a reserve
// A Blob is in a file, too, but for as long as a page that read it has it. Between these sizes it is one.
const LARGE = 4096;
const WRAPPED = 1 << 16;
const LONGEST_WAIT_MS = 10_000;
const ASKED_AT_ONCE = 200; // requests

type Row = Uint8Array | Blob;

/** Changes in the database of this name; it is made where there is none. */
export class IndexedDbChanges implements ChangeStore {
  private readonly connection: Connection;
  private channel: BroadcastChannel | undefined;
  private writes = 0;

  /** @param name of the database: one for each index */
  constructor(readonly name: string) {
    this.connection = new Connection(name, VERSION, (database) => {
      database.createObjectStore(RECORDS, { autoIncrement: true });
      database.createObjectStore(RESERVE);
    });
  }

  async read(): Promise<Uint8Array> {
    for (let attempt = 1; ; attempt++) {
      const rows = await this.transact("readonly", (store) => done<Row[]>(store.getAll()));
      try {
        if (rows.every((row) => row instanceof Uint8Array)) return concatenated(rows as Uint8Array[]);
        return new Uint8Array(await new Blob(rows as BlobPart[]).arrayBuffer());
      } catch (error) {
        // Another tab removed a row after it was listed.
        if (attempt === 3) throw await explainedWithQuota(this.name, error);
      }
    }
  }

  /** `length` counts records here. */
  state(): Promise<Written> {
    return this.transact("readonly", stateOf);
  }

  async append(bytes: Uint8Array, known: Written): Promise<Written> {
    const rows = rowsOf(recordsIn(bytes));
    const written = await this.changed(known, (store) => each(rows, (row) => store.add(row)));
    await this.reserve();
    return written;
  }

  async replace(bytes: Uint8Array, known: Written): Promise<Written> {
    const records = recordsIn(bytes);
    const rows = [...records.slice(0, NAMED).map((record) => Uint8Array.from(record)), ...rowsOf(records.slice(NAMED))];
    const written = await this.changed(known, (store) => {
      store.clear();
      return each(rows, (row) => store.add(row));
    });
    await this.reserve();
    return written;
  }

  async edit({ records, known }: Edit): Promise<Written> {
    const onlyRemoves = [...records.values()].every((record) => record === null);
    return this.changed(known, async (store) => {
      const keys = await done(store.getAllKeys());
      if (onlyRemoves) store.transaction.objectStore(RESERVE).clear();
      await each(records, ([place, record]) => {
        const key = keys[place];
        if (record === null) return store.delete(key!);
        return store.put(place < NAMED ? Uint8Array.from(record) : rowsOf([record])[0], key);
      });
    });
  }

  /** Web Locks, where the browser has them. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    const locks = globalThis.navigator?.locks as LockManager | undefined;
    if (locks === undefined) return work();
    const controller = new AbortController();
    const patience = setTimeout(() => {
      controller.abort(changedElsewhere(this.name, "another tab has been writing for ten seconds"));
    }, LONGEST_WAIT_MS);
    return locks.request(`pocketquery changes ${this.name}`, { signal: controller.signal }, () => {
      clearTimeout(patience);
      return work();
    });
  }

  watch(listener: () => void): () => void {
    const channel = this.channelOf();
    channel?.addEventListener("message", listener);
    return () => channel?.removeEventListener("message", listener);
  }

  /** Tells the site's other tabs and workers that something was written; undefined where browsers have none. */
  private channelOf(): BroadcastChannel | undefined {
    if (typeof BroadcastChannel !== "function") return undefined;
    return (this.channel ??= new BroadcastChannel(`pocketquery changes ${this.name}`));
  }

  /** Close the database; another call opens it again. */
  close(): void {
    this.connection.close();
    this.channel?.close();
    this.channel = undefined;
  }

  /** Have a reserve, where there is room for one. */
  private async reserve(): Promise<void> {
    if (this.writes++ % WRITES_BETWEEN !== 0) return;
    try {
      await this.transact("readwrite", async ({ transaction }) => {
        const store = transaction.objectStore(RESERVE);
        if ((await done(store.count())) > 0) return;
        const bytes = new Uint8Array(RESERVED_BYTES); // at random: nothing makes it smaller
        for (let at = 0; at < bytes.length; at += 1 << 16) crypto.getRandomValues(bytes.subarray(at, at + (1 << 16)));
        store.put(bytes, RESERVE);
      });
    } catch {
      // There is none then; deleting works without.
    }
  }

  private async changed(known: Written, work: (store: IDBObjectStore) => void | Promise<void>): Promise<Written> {
    const written = await this.transact("readwrite", async (store) => {
      checkWritten(this.name, await stateOf(store), known);
      await work(store);
      return stateOf(store);
    });
    this.channelOf()?.postMessage(null);
    return written;
  }

  private async transact<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => Promise<T>): Promise<T> {
    const transaction = begun(this.name, await this.connection.opened(), [RECORDS, RESERVE], mode);
    const over = ended(this.name, transaction);
    over.catch(() => undefined); // what failed within is told first
    try {
      const result = await work(transaction.objectStore(RECORDS));
      await over;
      return result;
    } catch (failed) {
      const error = transaction.error ?? failed; // a request of a transaction that was refused says less
      try {
        transaction.abort();
      } catch {
        // It is over already.
      }
      throw await explainedWithQuota(this.name, error);
    }
  }
}

/** Ask for something with each item, of one transaction; the thread's other work goes on between. */
async function each<T>(items: Iterable<T>, ask: (item: T) => IDBRequest): Promise<void> {
  let asked = 0;
  for (const item of items) {
    const request = ask(item);
    if (++asked % ASKED_AT_ONCE === 0) await done<unknown>(request);
  }
}

/** Copies of records; as Blobs where they are large. */
function rowsOf(records: readonly Uint8Array[]): Row[] {
  return records.map((record) => {
    const copy = Uint8Array.from(record);
    return record.length >= LARGE && record.length < WRAPPED ? new Blob([copy]) : copy;
  });
}

async function stateOf(store: IDBObjectStore): Promise<Written> {
  const [first, length, cursor] = await Promise.all([
    done<Row[]>(store.getAll(null, NAMED)),
    done(store.count()),
    done(store.openKeyCursor(null, "prev")),
  ]);
  if (cursor === null) return { ...NOTHING_WRITTEN, last: 0 };
  const { begin } = writtenIn(first.filter((row) => row instanceof Uint8Array));
  return { length, begin, last: Number(cursor.key) };
}
