/**
 * A query store in a file, for Node and Electron's main process: JSON that its owner alone may read,
 * written anew with each change, so that nothing erased stays in it. One program at a time.
 */

import { readFile } from "node:fs/promises";
import { ArtifactError, StorageFullError } from "../errors.js";
import { eraseFile, inTurn, isFull, removeLeft, replaceFile } from "../files/replace.js";
import { type Change, changed, changes, checkKept, type Kept, newState, type StoreBackend } from "./backend.js";

/** The store in the file at this path; it and its folder are made where they are not there. */
export class FileBackend implements StoreBackend {
  constructor(readonly name: string) {}

  transact<T>(work: (kept: Kept) => Change<T>): Promise<T> {
    return inTurn(this.name, async () => {
      const { kept, isThere } = await this.#read();
      const change = work(kept);
      if (change.erases) await this.#explained(() => removeLeft(this.name));
      if (!isThere || changes(change)) await this.#replace(changed(kept, change), change.erases);
      return change.result;
    });
  }

  /** Overwrite the file with zeros and remove it, and what a program that was killed left beside it. */
  destroy(): Promise<void> {
    return inTurn(this.name, () => this.#explained(() => eraseFile(this.name)));
  }

  close(): void {
    // Nothing is held open.
  }

  async #read(): Promise<{ kept: Kept; isThere: boolean }> {
    const text = await this.#explained(async () =>
      readFile(this.name, "utf8").catch((error: { code?: unknown }) => {
        if (error.code === "ENOENT") return null;
        throw error;
      }),
    );
    if (text === null) return { kept: { state: newState(), rows: [], made: new Map() }, isThere: false };
    return { kept: checkKept(parsed(text), this.name), isThere: true };
  }

  /**
   * The file anew. Where there is no space for it beside the old one, whoever erases has that removed
   * first; where even that is too little, the store is empty and without consent.
   */
  async #replace(kept: Kept, erases = false): Promise<void> {
    try {
      await this.#write(kept);
    } catch (error) {
      if (!erases || !(error instanceof StorageFullError)) throw error;
      await this.#explained(() => eraseFile(this.name));
      await this.#write(kept).catch((again: unknown) => {
        if (!(again instanceof StorageFullError)) throw again;
      });
    }
  }

  async #write({ state, rows, made }: Kept): Promise<void> {
    const values = [...made].map(([name, bytes]) => [name, Buffer.from(bytes).toString("base64")]);
    const text = JSON.stringify({ state, rows, made: Object.fromEntries(values) });
    await this.#explained(() => replaceFile(this.name, Buffer.from(text)));
  }

  async #explained<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new (isFull(error) ? StorageFullError : ArtifactError)(
        `the query store ${this.name} cannot be used (${reason}); expected a file that may be ` +
          "written and space for it; nothing was changed",
        { cause: error },
      );
    }
  }
}

/** What is in a file; with rows and state of any kind, which `checkKept` looks at. */
function parsed(text: string): Kept {
  const nothing = { state: undefined as never, rows: [], made: new Map() };
  try {
    const found = JSON.parse(text) as Record<string, unknown> | null;
    if (!Array.isArray(found?.["rows"]) || found["rows"].some((row) => typeof row !== "object" || !row)) {
      return nothing;
    }
    const made = Object.entries((found["made"] ?? {}) as Record<string, string>);
    return {
      state: found["state"] as never,
      rows: found["rows"] as never,
      made: new Map(made.map(([name, value]) => [name, Uint8Array.from(Buffer.from(value, "base64"))])),
    };
  } catch {
    return nothing;
  }
}
