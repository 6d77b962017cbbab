/** Where the changes made on a device are kept. */
import { ArtifactError } from "../errors.js";

/**
 * One growing file of changes. A platform brings its own: {@link MemoryChanges} here,
 * `IndexedDbChanges` for pages and workers, `FileChanges` for Node.
 *
 * One program writes at a time. `length` says how long the writer believes the file to be; where
 * it is not, another wrote meanwhile, and nothing may be changed.
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
  append(bytes: Uint8Array, length: number): Promise<void>;

  /**
   * Put `bytes` in the place of everything, in one step: whoever reads gets the old or the new.
   * @throws ArtifactError no room, or another wrote; the old bytes are there
   */
  replace(bytes: Uint8Array, length: number): Promise<void>;
}

/** Changes that last as long as this object. */
export class MemoryChanges implements ChangeStore {
  readonly name = "the changes in memory";

  /** @param bytes what {@link read} gave, to go on from there */
  constructor(private bytes: Uint8Array = new Uint8Array(0)) {}

  async read(): Promise<Uint8Array> {
    return this.bytes;
  }

  async append(bytes: Uint8Array, length: number): Promise<void> {
    checkLength(this.name, this.bytes.length, length);
    const larger = new Uint8Array(length + bytes.length);
    larger.set(this.bytes);
    larger.set(bytes, length);
    this.bytes = larger;
  }

  async replace(bytes: Uint8Array, length: number): Promise<void> {
    checkLength(this.name, this.bytes.length, length);
    this.bytes = bytes.slice();
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

/** @throws ArtifactError another program wrote meanwhile */
export function checkLength(name: string, found: number, expected: number): void {
  if (found !== expected) throw new ChangedMeanwhileError(name, `${found} bytes`, String(expected));
}
