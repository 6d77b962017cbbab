/** Where the changes made on a device are kept. */
import { ArtifactError } from "../errors.js";
import { concatenated, copied } from "../files/bytes.js";

/** What tells one state of a file of changes from every other: see {@link writtenIn}. */
export interface Written {
  /** Bytes. */
  readonly length: number;
  /** The first of them, {@link BEGINNING} at most; a file that is put down anew begins otherwise. */
  readonly begin: Uint8Array;
}

/** So many bytes hold the name at random that each log begins with. */
export const BEGINNING = 512;

export const NOTHING_WRITTEN: Written = { length: 0, begin: new Uint8Array() };

/**
 * One growing file of changes. A platform brings its own: {@link MemoryChanges} here,
 * `IndexedDbChanges` for pages and workers, `FileChanges` for Node.
 *
 * One program writes at a time. `known` says what the writer believes to be there; where it is
 * not, another wrote meanwhile, and nothing may be changed: {@link checkWritten}.
 */
export interface ChangeStore {
  /** How an error calls the place. */
  readonly name: string;

  /** All bytes; none at first. */
  read(): Promise<Uint8Array>;

  /**
   * Add `bytes` at the end; they outlast a loss of power when this resolves.
   * @throws ArtifactError no room, or another wrote; some of `bytes` may be there
   */
  append(bytes: Uint8Array, known: Written): Promise<void>;

  /**
   * Put `bytes` in the place of everything, in one step: whoever reads gets the old or the new.
   * @throws ArtifactError no room, or another wrote; the old bytes are there
   */
  replace(bytes: Uint8Array, known: Written): Promise<void>;
}

/** Changes that last as long as this object. */
export class MemoryChanges implements ChangeStore {
  readonly name = "the changes in memory";

  /** @param bytes what {@link read} gave, to go on from there */
  constructor(private bytes: Uint8Array = new Uint8Array(0)) {}

  async read(): Promise<Uint8Array> {
    return this.bytes;
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

/** Another program wrote, so nothing was changed here; to callers it is an ArtifactError. */
export class ChangedMeanwhileError extends ArtifactError {
  constructor(name: string, found: string, expected: string) {
    super(
      `${name}: has ${found}, expected ${expected}: another program changed it meanwhile; ` +
        "open the index again",
    );
    this.name = ArtifactError.name;
  }
}

/** The state of a file with these pieces, one behind the other. */
export function writtenIn(pieces: readonly Uint8Array[]): Written {
  const first: Uint8Array[] = [];
  let length = 0;
  for (const piece of pieces) {
    if (length < BEGINNING) first.push(piece.subarray(0, BEGINNING - length));
    length += piece.length;
  }
  return { length, begin: copied(concatenated(first)) };
}

/** @throws ArtifactError another program wrote meanwhile */
export function checkWritten(name: string, found: Written, known: Written): void {
  if (found.length !== known.length) {
    throw new ChangedMeanwhileError(name, `${found.length} bytes`, String(known.length));
  }
  if (known.begin.some((byte, i) => byte !== found.begin[i])) {
    throw new ChangedMeanwhileError(name, "changes that begin otherwise", "those that were read");
  }
}
