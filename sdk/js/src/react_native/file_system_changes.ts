/** Changes in a file of an app: what is added and deleted there outlasts it. */

import { ArtifactError } from "../errors.js";
import { concatenated } from "../files/bytes.js";
import { exclusively } from "../secure/exclusively.js";
import { BEGINNING, type ChangeStore, checkWritten, NOTHING_WRITTEN, type Written } from "../index/changes/change_store.js";
import { checkFileSystem, explained, type FileSystem, readBytes, WRITING } from "./file_system.js";

/**
 * Changes in the file at `name`, whose folder is there. All of them are put down anew beside it, at
 * `name` + ".new", which then takes its name; a file system that removes the old one first may be ended between
 * the two, and the new one is taken up by whoever reads next. One app at a time.
 *
 * These modules cannot wait until the disk has what they wrote: what was added in the last seconds before the
 * battery is out may be lost, and nothing else.
 */
export class FileSystemChanges implements ChangeStore {
  private readonly files: FileSystem;
  private readonly newer: string;

  /**
   * @param name the file's path
   * @throws InvalidInputError `files` is no file system that writes
   */
  constructor(files: FileSystem, readonly name: string) {
    this.files = checkFileSystem(files, WRITING);
    this.newer = `${name}.new`;
  }

  read(): Promise<Uint8Array> {
    return this.inTurn(() => this.bytes());
  }

  state(): Promise<Written> {
    return this.inTurn(() => this.written());
  }

  async append(bytes: Uint8Array, known: Written): Promise<void> {
    await this.changed(known, async () => {
      if (known.length > 0 && this.files.append) await this.files.append(this.name, bytes);
      else await this.put(concatenated([await this.bytes(), bytes]));
    });
  }

  async replace(bytes: Uint8Array, known: Written): Promise<void> {
    await this.changed(known, () => this.put(bytes));
  }

  /** Do `work` on the file in this state. */
  private changed(known: Written, work: () => Promise<void>): Promise<void> {
    return this.inTurn(async () => {
      checkWritten(this.name, await this.written(), known);
      await explained(this.name, work, "; the index is as it was");
    });
  }

  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    return exclusively(`file ${this.name}`, work);
  }

  private async put(bytes: Uint8Array): Promise<void> {
    await this.files.write(this.newer, bytes);
    const size = await this.files.size(this.newer);
    if (size !== bytes.length) throw new ArtifactError(`${size} bytes were written, expected ${bytes.length}`);
    await this.files.move(this.newer, this.name);
  }

  private async written(): Promise<Written> {
    const length = await this.length();
    if (length === 0) return NOTHING_WRITTEN;
    return { length, begin: await readBytes(this.files, this.name, 0, Math.min(length, BEGINNING)) };
  }

  private async bytes(): Promise<Uint8Array> {
    return readBytes(this.files, this.name, 0, await this.length());
  }

  private async length(): Promise<number> {
    return explained(this.name, async () => {
      let size = await this.files.size(this.name);
      if (size === null && (await this.files.size(this.newer)) !== null) {
        await this.files.move(this.newer, this.name); // whole, or the first that was ever written
        size = await this.files.size(this.name);
      }
      return size ?? 0;
    });
  }
}
