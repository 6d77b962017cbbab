/** Changes in a file, for Node and Electron's main process. */
import { open, readFile } from "node:fs/promises";
import { ArtifactError, StorageFullError } from "../../errors.js";
import { inTurn, isFull, removeLeft, replaceFile, writeAll } from "../../files/replace.js";
import {
  BEGINNING,
  type ChangeStore,
  checkWritten,
  NOTHING_WRITTEN,
  type Written,
} from "./change_store.js";

/** Changes in the file at a path; it and its folder are made where they are not there. */
export class FileChanges implements ChangeStore {
  /** @param name the file's path */
  constructor(readonly name: string) {}

  read(): Promise<Uint8Array> {
    return inTurn(this.name, async () => {
      try {
        return Uint8Array.from(await readFile(this.name));
      } catch (error) {
        if (isMissing(error)) return new Uint8Array(0);
        throw this.failed(error);
      }
    });
  }

  async append(bytes: Uint8Array, known: Written): Promise<void> {
    if (known.length === 0) return this.replace(bytes, known); // the file and its name last together
    await this.changed(known, async () => {
      const file = await open(this.name, "r+");
      try {
        await writeAll(file, bytes, known.length);
        await file.sync();
      } finally {
        await file.close();
      }
    });
  }

  async replace(bytes: Uint8Array, known: Written): Promise<void> {
    await this.changed(known, async () => {
      await removeLeft(this.name); // of what is erased with this
      await replaceFile(this.name, bytes);
    });
  }

  async state(): Promise<Written> {
    try {
      const file = await open(this.name, "r");
      try {
        const { size } = await file.stat();
        const { buffer, bytesRead } = await file.read(new Uint8Array(BEGINNING), 0, BEGINNING, 0);
        return { length: size, begin: buffer.subarray(0, bytesRead) };
      } finally {
        await file.close();
      }
    } catch (error) {
      if (isMissing(error)) return NOTHING_WRITTEN;
      throw this.failed(error);
    }
  }

  /** Do `work` on the file in this state. */
  private changed(known: Written, work: () => Promise<void>): Promise<void> {
    return inTurn(this.name, async () => {
      checkWritten(this.name, await this.state(), known);
      try {
        await work();
      } catch (error) {
        throw this.failed(error);
      }
    });
  }

  private failed(error: unknown): ArtifactError {
    const reason = error instanceof Error ? error.message : String(error);
    const kind = isFull(error) ? StorageFullError : ArtifactError;
    return new kind(`${this.name}: ${reason}; the index is as it was`, { cause: error });
  }
}

function isMissing(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "ENOENT";
}
