/** Changes in a file, for Node and Electron's main process. */
import { open, readFile, stat } from "node:fs/promises";
import { ArtifactError } from "../errors.js";
import { inTurn, removeLeft, replaceFile, writeAll } from "../files/replace.js";
import { type ChangeStore, checkLength } from "./change_store.js";

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
        throw error;
      }
    });
  }

  async append(bytes: Uint8Array, length: number): Promise<void> {
    if (length === 0) return this.replace(bytes, length); // the file and its name last together
    await this.changed(length, async () => {
      const file = await open(this.name, "r+");
      try {
        await writeAll(file, bytes, length);
        await file.sync();
      } finally {
        await file.close();
      }
    });
  }

  async replace(bytes: Uint8Array, length: number): Promise<void> {
    await this.changed(length, async () => {
      await removeLeft(this.name); // of what is erased with this
      await replaceFile(this.name, bytes);
    });
  }

  private async size(): Promise<number> {
    try {
      return (await stat(this.name)).size;
    } catch (error) {
      if (isMissing(error)) return 0;
      throw error;
    }
  }

  /** Do `work` on the file of this length. */
  private changed(length: number, work: () => Promise<void>): Promise<void> {
    return inTurn(this.name, async () => {
      checkLength(this.name, await this.size(), length);
      try {
        await work();
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        throw new ArtifactError(`${this.name}: ${reason}; the index is as it was`, { cause: error });
      }
    });
  }
}

function isMissing(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "ENOENT";
}
