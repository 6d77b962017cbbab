/** A device's few files in IndexedDB: for pages and workers, shared by all tabs of a site. */

import { begun, deleteDatabase, done, ended, explained, openDatabase } from "../indexed_db.js";
import { type AgreementKey, agreementKeyOf, newAgreementPair } from "./agreement.js";
import { type DevicePlace, sameBytes } from "./place.js";
import { newKeyPair, type Signer, signerOf } from "./signing.js";

const VERSION = 1;
const [KEYS, FILES] = ["keys", "files"] as const;
const [GATEWAY, DEVICE] = ["gateway", "device"] as const; // the key pairs

/** The place in the database of this name. */
export class IndexedDbPlace implements DevicePlace {
  constructor(readonly name = "pocketquery-device") {}

  async signer(): Promise<Signer> {
    return signerOf(await this.#pair(GATEWAY, newKeyPair));
  }

  async deviceKey(): Promise<AgreementKey> {
    return agreementKeyOf(await this.#pair(DEVICE, newAgreementPair));
  }

  async read(file: string): Promise<Uint8Array | null> {
    return this.#transact(FILES, "readonly", async (files) => {
      return (await done<Uint8Array | undefined>(files.get(file))) ?? null;
    });
  }

  async replace(file: string, expected: Uint8Array | null, data: Uint8Array | null): Promise<boolean> {
    return this.#transact(FILES, "readwrite", async (files) => {
      const found = (await done<Uint8Array | undefined>(files.get(file))) ?? null;
      if (!sameBytes(found, expected)) return false;
      if (data === null) files.delete(file);
      else files.put(data, file);
      return true;
    });
  }

  async destroy(): Promise<void> {
    await deleteDatabase(this.name);
  }

  async #pair(name: string, make: () => Promise<CryptoKeyPair>): Promise<CryptoKeyPair> {
    const known = await this.#transact(KEYS, "readonly", (keys) => done<CryptoKeyPair | undefined>(keys.get(name)));
    if (known) return known;
    const made = await make(); // a transaction does not wait for it
    return this.#transact(KEYS, "readwrite", async (keys) => {
      const found = await done<CryptoKeyPair | undefined>(keys.get(name)); // of another tab, meanwhile
      if (!found) keys.put(made, name);
      return found ?? made;
    });
  }

  /** One transaction on one table, durable when this returns; the database is closed again. */
  async #transact<T>(
    table: string,
    mode: IDBTransactionMode,
    work: (store: IDBObjectStore) => Promise<T>,
  ): Promise<T> {
    const database = await openDatabase(this.name, VERSION, (made) => {
      for (const name of [KEYS, FILES]) made.createObjectStore(name);
    });
    try {
      const transaction = begun(this.name, database, [table], mode);
      const over = ended(this.name, transaction);
      over.catch(() => undefined); // what failed within is told first
      const result = await work(transaction.objectStore(table));
      await over;
      return result;
    } catch (error) {
      throw explained(this.name, error);
    } finally {
      database.close();
    }
  }
}
