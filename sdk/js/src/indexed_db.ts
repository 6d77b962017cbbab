/** IndexedDB in promises, and its failures in this package's words. */

import { ArtifactError, MissingExtraError, PocketQueryError, StorageFullError, UnsupportedVersionError } from "./errors.js";

/**
 * The database `name`, made where there is none.
 *
 * Throws MissingExtraError (there is no IndexedDB: a private window, or switched off),
 * UnsupportedVersionError or ArtifactError.
 */
export async function openDatabase(
  name: string,
  version: number,
  make: (database: IDBDatabase) => void,
): Promise<IDBDatabase> {
  if (typeof indexedDB !== "object" || indexedDB === null) throw unavailable(name);
  let request: IDBOpenDBRequest;
  try {
    request = indexedDB.open(name, version);
  } catch (error) {
    throw unavailable(name, error);
  }
  return new Promise((resolve, reject) => {
    request.onupgradeneeded = () => make(request.result);
    request.onsuccess = () => {
      // Another tab wants to delete or upgrade it: do not stand in its way.
      request.result.onversionchange = () => request.result.close();
      resolve(request.result);
    };
    request.onerror = () => reject(explained(name, request.error));
    request.onblocked = () => reject(new ArtifactError(`${name} is held open by another tab; close it`));
  });
}

/** A connection to the database `name` that is made when it is needed, and anew where it was closed. */
export class Connection {
  #database: Promise<IDBDatabase> | null = null;

  /** What `openDatabase` takes. */
  constructor(
    readonly name: string,
    readonly version: number,
    readonly make: (database: IDBDatabase) => void,
  ) {}

  /** The open database. Throws as `openDatabase` does. */
  opened(): Promise<IDBDatabase> {
    if (this.#database !== null) return this.#database;
    const opening = openDatabase(this.name, this.version, this.make);
    const forget = (): void => {
      if (this.#database === opening) this.#database = null; // another attempt may succeed
    };
    opening.then((database) => {
      const close = database.onversionchange; // of which no "close" event tells
      database.onversionchange = (event) => {
        forget();
        close?.call(database, event);
      };
      database.onclose = forget;
    }, forget);
    return (this.#database = opening);
  }

  /** Close the database; another call opens it again. */
  close(): void {
    this.#database?.then((database) => database.close()).catch(() => undefined);
    this.#database = null;
  }
}

/** Remove the database `name`; none is fine too. */
export async function deleteDatabase(name: string): Promise<void> {
  if (typeof indexedDB !== "object" || indexedDB === null) throw unavailable(name);
  const request = indexedDB.deleteDatabase(name);
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve();
    request.onerror = () => reject(explained(name, request.error));
  });
}

/** The end of a transaction: written durably, or nothing of it. */
export function ended(name: string, transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(explained(name, transaction.error));
  });
}

/** The result of one request. */
export function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** A transaction that outlasts a loss of power, where the browser can promise it. */
export function begun(
  name: string,
  database: IDBDatabase,
  stores: string[],
  mode: IDBTransactionMode,
): IDBTransaction {
  try {
    return database.transaction(stores, mode, { durability: "strict" });
  } catch (error) {
    throw explained(name, error);
  }
}

const QUOTA = "QuotaExceededError";

/** As {@link explained}, and of a full storage how much is used of what the browser allows. */
export async function explainedWithQuota(name: string, error: unknown): Promise<Error> {
  const told = explained(name, error);
  const estimate = told instanceof StorageFullError && (await navigator.storage?.estimate().catch(() => null));
  if (!estimate || estimate.quota === undefined) return told;
  const used = `${estimate.usage ?? "some"} of the ${estimate.quota} bytes that the browser allows this site are used`;
  return new StorageFullError(`${told.message} (${used})`, { cause: told.cause });
}

/** `error` as one of this package's; one that is stays as it is. */
export function explained(name: string, error: unknown): Error {
  if (error instanceof PocketQueryError) return error;
  const { name: kind = "Error", message = String(error) } = (error ?? {}) as Partial<Error>;
  if (kind === QUOTA) {
    return new StorageFullError(
      `${name}: there is no space left for it; nothing was changed. Delete something, or free some space`,
      { cause: error },
    );
  }
  if (kind === "VersionError") {
    return new UnsupportedVersionError(
      `${name} was written by a newer version of this page; upgrade pocketquery`,
      { cause: error },
    );
  }
  if (kind === "SecurityError" || kind === "InvalidStateError") return unavailable(name, error);
  return new ArtifactError(`${name} cannot be used (${kind}: ${message}); nothing was changed`, {
    cause: error,
  });
}

function unavailable(name: string, cause?: unknown): MissingExtraError {
  return new MissingExtraError(
    `${name}: this browser, or this window, has no IndexedDB to keep it in; switch it on, leave ` +
      "the private window, or keep it in memory",
    { cause },
  );
}
