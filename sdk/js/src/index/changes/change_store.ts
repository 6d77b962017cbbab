/** Where the changes made on a device are kept. */
import { ChangedElsewhereError } from "../../errors.js";
import { concatenated, copied } from "../../files/bytes.js";

/** What tells one state of the changes from every other: see {@link writtenIn}. */
export interface Written {
  /** Bytes. */
  readonly length: number;
  /** The first of them, {@link BEGINNING} at most; a log that is put down anew begins otherwise. */
  readonly begin: Uint8Array;
  /** Of a store of records, the number of the last one ever added. */
  readonly last?: number | undefined;
}

/** So many bytes hold the name at random that each log begins with. */
export const BEGINNING = 512;

export const NOTHING_WRITTEN: Written = { length: 0, begin: new Uint8Array() };

/** What {@link ChangeStore.edit} does, in one step. */
export interface Edit {
  /** By a record's place: what it becomes; null removes it. An edit that only removes takes no room. */
  readonly records: ReadonlyMap<number, Uint8Array | null>;
  readonly known: Written;
}

/**
 * One growing log of changes. A platform brings its own: {@link MemoryChanges} here,
 * `IndexedDbChanges` for pages and workers, `FileChanges` for Node.
 *
 * `known` says what the writer believes to be there; where it is not, another tab or program wrote
 * meanwhile, and nothing may be changed: {@link checkWritten}.
 */
export interface ChangeStore {
  /** How an error calls the place. */
  readonly name: string;

  /** All bytes; none at first. */
  read(): Promise<Uint8Array>;

  /** What is there now: asked before each search. Without it everything is read. */
  state?(): Promise<Written>;

  /**
   * Add `bytes` at the end; they outlast a loss of power when this resolves.
   * @returns what is there then, where `length` and `begin` do not tell it whole
   * @throws StorageFullError no room
   * @throws ChangedElsewhereError another wrote
   * @throws ArtifactError any other failure; some of `bytes` may be there
   */
  append(bytes: Uint8Array, known: Written): Promise<Written | void>;

  /**
   * Put `bytes` in the place of everything, in one step: whoever reads gets the old or the new.
   * @throws StorageFullError, ChangedElsewhereError, ArtifactError the old bytes are there
   */
  replace(bytes: Uint8Array, known: Written): Promise<Written | void>;

  /** Change single records. A store that can do so appends all of its bytes or nothing. */
  edit?(edit: Edit): Promise<Written>;

  /** Call `listener` when another tab has written, until what is returned is called. */
  watch?(listener: () => void): () => void;

  /** Do `work` while no other tab writes. @throws ChangedElsewhereError another one does for long */
  alone?<T>(work: () => Promise<T>): Promise<T>;
}

/** Changes that last as long as this object. */
export class MemoryChanges implements ChangeStore {
  readonly name = "the changes in memory";

  /** @param bytes what {@link read} gave, to go on from there */
  constructor(private bytes: Uint8Array = new Uint8Array(0)) {}

  async read(): Promise<Uint8Array> {
    return this.bytes;
  }

  async state(): Promise<Written> {
    return writtenIn([this.bytes]);
  }

  async append(bytes: Uint8Array, known: Written): Promise<void> {
    checkWritten(this.name, writtenIn([this.bytes]), known);
    this.bytes = concatenated([this.bytes, bytes]);
  }

  async replace(bytes: Uint8Array, known: Written): Promise<void> {
    checkWritten(this.name, writtenIn([this.bytes]), known);
    this.bytes = copied(bytes);
  }
}

/** The state of a log with these pieces, one behind the other. */
export function writtenIn(pieces: readonly Uint8Array[]): Written {
  const first: Uint8Array[] = [];
  let length = 0;
  for (const piece of pieces) {
    if (length < BEGINNING) first.push(piece.subarray(0, BEGINNING - length));
    length += piece.length;
  }
  return { length, begin: copied(concatenated(first)) };
}

/** What a `found` state differs in from the `known` one; null where they are the same. */
export function difference(found: Written, known: Written): string | null {
  if (found.length !== known.length) {
    return `has ${found.length} ${known.last === undefined ? "bytes" : "records"}, expected ${known.length}`;
  }
  if (known.begin.some((byte, i) => byte !== found.begin[i])) {
    return "has changes that begin otherwise, expected those that were read";
  }
  if (known.last === undefined || found.last === known.last) return null;
  return `has the records up to ${found.last}, expected ${known.last}`;
}

/** @throws ChangedElsewhereError another tab or program wrote meanwhile */
export function checkWritten(name: string, found: Written, known: Written): void {
  const what = difference(found, known);
  if (what !== null) throw changedElsewhere(name, what);
}

/** The error for changes that are no longer those that were read. */
export function changedElsewhere(name: string, what: string): ChangedElsewhereError {
  return new ChangedElsewhereError(
    `${name}: ${what}: another tab or program changed it meanwhile; try again, or open the index again`,
  );
}
