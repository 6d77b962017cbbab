/** Where a query store keeps what it has: memory here, IndexedDB and a file in files of their own. */

import { CorruptArtifactError, UnsupportedVersionError } from "../errors.js";
import { randomName } from "../files/bytes.js";
import type { Example } from "./example.js";
import { type Age, NO_AGE } from "./expiry.js";

const FORMAT = "pocketquery-query-store";
const VERSION = 1;

/** A kept query. */
export interface Row extends Example {
  /** Rising in the order in which they came. */
  readonly number: number;
  /** The store's age when it was kept. */
  readonly age: number;
  /** The device's clock then, Unix seconds; null where it was not set. */
  readonly time: number | null;
  /** Bytes of its texts. */
  readonly size: number;
}

/** What is kept beside the queries. */
export interface StoreState extends Age {
  readonly format: string;
  readonly version: number;
  readonly consent: boolean;
  /** A name, made at random, for what is kept; another one once any of it was erased. */
  readonly epoch: string;
  /** The clock when a private round's state was kept; absent where none was, or an earlier release did. */
  readonly roundKept?: number;
}

/** All that is kept. */
export interface Kept {
  readonly state: StoreState;
  readonly rows: readonly Row[];
  /** What was computed of the queries, by name. */
  readonly made: ReadonlyMap<string, Uint8Array>;
}

/** What a transaction changes; what it does not name stays. */
export interface Change<T> {
  readonly result: T;
  readonly state?: StoreState;
  /** Added, or put in the place of those of the same number. */
  readonly put?: readonly Row[];
  /** Numbers of rows that go. */
  readonly remove?: readonly number[];
  /** What was made, put (or, with null, removed) by name; null removes all. */
  readonly made?: ReadonlyMap<string, Uint8Array | null> | null;
  /** The user erases: it must be done, also where there is no space left. */
  readonly erases?: boolean;
}

/**
 * A place for one store. A transaction hands over what is kept and makes the change that comes back,
 * whole or not at all, and nobody else's between.
 */
export interface StoreBackend {
  /** How an error calls the place. */
  readonly name: string;
  /** Throws ArtifactError where it cannot be read or written (no space, no permission). */
  transact<T>(work: (kept: Kept) => Change<T>): Promise<T>;
  /** Remove everything, also what is damaged. */
  destroy(): Promise<void>;
  close(): void;
}

/** A store's state when it is made. */
export function newState(): StoreState {
  return { format: FORMAT, version: VERSION, consent: false, epoch: randomName(), ...NO_AGE };
}

/** `kept` with `change` made to it. */
export function changed(kept: Kept, change: Change<unknown>): Kept {
  const removed = new Set([...(change.remove ?? []), ...(change.put ?? []).map(({ number }) => number)]);
  const rows = [...kept.rows.filter(({ number }) => !removed.has(number)), ...(change.put ?? [])];
  const made = new Map(change.made === null ? [] : kept.made);
  for (const [name, bytes] of change.made ?? []) {
    if (bytes === null) made.delete(name);
    else made.set(name, bytes);
  }
  return { state: change.state ?? kept.state, rows: rows.sort((a, b) => a.number - b.number), made };
}

/** Whether a transaction changes anything. */
export function changes({ state, put, remove, made }: Change<unknown>): boolean {
  return state !== undefined || !!put?.length || !!remove?.length || made !== undefined;
}

/** `found`, where it is what a store keeps. Throws CorruptArtifactError or UnsupportedVersionError. */
export function checkKept(found: Kept, name: string): Kept {
  const state = found.state as Partial<StoreState> | undefined;
  if (state?.format === FORMAT && Number.isInteger(state.version) && (state.version ?? 0) > VERSION) {
    throw new UnsupportedVersionError(
      `${name} is of version ${state.version}, this release reads up to ${VERSION}; upgrade ` +
        "pocketquery",
    );
  }
  const isNumber = (value: unknown): boolean => value === null || Number.isFinite(value);
  const isState =
    state?.format === FORMAT &&
    state.version === VERSION &&
    typeof state.consent === "boolean" &&
    typeof state.epoch === "string" &&
    Number.isFinite(state.seconds) &&
    [state.seen, state.origin, state.landed].every(isNumber);
  const areRows = found.rows.every(
    (row) =>
      Number.isSafeInteger(row.number) &&
      typeof row.query === "string" &&
      Array.isArray(row.shown) &&
      row.shown.every((id) => typeof id === "string") &&
      (row.opened === null || typeof row.opened === "string") &&
      Number.isFinite(row.age) &&
      isNumber(row.time) &&
      Number.isFinite(row.size),
  );
  const isMade = [...found.made.values()].every((bytes) => bytes instanceof Uint8Array);
  if (!isState || !areRows || !isMade) {
    throw new CorruptArtifactError(
      `${name} is damaged, or another program's, expected a query store; erase it with ` +
        "QueryStore.destroy(place): a new store begins empty and without consent",
    );
  }
  return found;
}

/** A store that lasts as long as this object: for tests, and pages that keep nothing. */
export class MemoryBackend implements StoreBackend {
  readonly name = "the query store in memory";
  #kept: Kept = { state: newState(), rows: [], made: new Map() };

  async transact<T>(work: (kept: Kept) => Change<T>): Promise<T> {
    const change = work(this.#kept);
    this.#kept = changed(this.#kept, change);
    return change.result;
  }

  async destroy(): Promise<void> {
    this.#kept = { state: newState(), rows: [], made: new Map() };
  }

  close(): void {
    // Nothing is held.
  }
}
