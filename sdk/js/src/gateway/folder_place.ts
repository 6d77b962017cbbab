/** A device's few files in a folder that its owner alone may read: for Node and Electron's main process. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ArtifactError, CorruptArtifactError, InvalidInputError, PocketQueryError } from "../errors.js";
import { eraseFile, inTurn, replaceFile } from "../files/replace.js";
import { type AgreementKey, agreementKeyOfBytes } from "./agreement.js";
import { type DevicePlace, LEDGER, PRIVATE_ROUND, RELEASE, sameBytes, TRUSTED_RELEASES } from "./place.js";
import { type Signer, signerOfBytes } from "./signing.js";

const [KEY, DEVICE_KEY] = ["gateway.key", "device.key"] as const; // as Python's
const FILES = [KEY, DEVICE_KEY, RELEASE, TRUSTED_RELEASES, LEDGER, PRIVATE_ROUND];
const KEY_BYTES = 32;

/** The place in the folder `name`, which is made where it is not there. One program at a time. */
export class FolderPlace implements DevicePlace {
  constructor(readonly name: string) {}

  async signer(): Promise<Signer> {
    return signerOfBytes(await this.#key(KEY, "the device registers anew"));
  }

  async deviceKey(): Promise<AgreementKey> {
    return agreementKeyOfBytes(await this.#key(DEVICE_KEY, "have the new one certified"));
  }

  read(file: string): Promise<Uint8Array | null> {
    return this.#explained(async () =>
      readFile(this.#path(file)).then(
        (data) => Uint8Array.from(data),
        (error: { code?: unknown }) => {
          if (error.code === "ENOENT") return null;
          throw error;
        },
      ),
    );
  }

  async replace(file: string, expected: Uint8Array | null, data: Uint8Array | null): Promise<boolean> {
    const path = this.#path(file);
    return inTurn(path, () =>
      this.#explained(async () => {
        if (!sameBytes(await this.read(file), expected)) return false;
        await (data === null ? eraseFile(path) : replaceFile(path, data));
        return true;
      }),
    );
  }

  /** Overwrite the keys and the other files with zeros, and remove them; the folder stays. */
  async destroy(): Promise<void> {
    for (const file of FILES) {
      const path = this.#path(file);
      await inTurn(path, () => this.#explained(() => eraseFile(path)));
    }
  }

  async #key(file: string, then: string): Promise<Uint8Array> {
    await this.replace(file, null, crypto.getRandomValues(new Uint8Array(KEY_BYTES)));
    const key = (await this.read(file)) ?? new Uint8Array();
    if (key.length === KEY_BYTES) return key;
    throw new CorruptArtifactError(
      `${join(this.name, file)} has ${key.length} bytes, expected a key of ${KEY_BYTES}; remove it, and ${then}`,
    );
  }

  #path(file: string): string {
    if (!/^[a-z][a-z.-]{0,60}$/.test(file)) throw new InvalidInputError(`${file} is no file's name here`);
    return join(this.name, file);
  }

  async #explained<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof PocketQueryError) throw error;
      throw new ArtifactError(
        `the device's folder ${this.name} cannot be used (${(error as Error).message}); expected one ` +
          "that may be written and space for it; nothing was changed",
        { cause: error },
      );
    }
  }
}
