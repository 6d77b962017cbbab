/**
 * Where a device keeps what is not made of queries: its keys for the gateway and for private rounds,
 * what those cost, which releases it trusts, and the release to search with. In memory here; IndexedDB and a folder in files of their
 * own.
 */

import { type AgreementKey, agreementKeyOf, newAgreementPair } from "./agreement.js";
import { newKeyPair, type Signer, signerOf } from "./signing.js";

/** The release to search with. */
export const RELEASE = "adapter.safetensors";
/** Whose signatures are required, and what is in force. */
export const TRUSTED_RELEASES = "trusted-releases.json";
/** What private rounds have cost. */
export const LEDGER = "privacy.json";
/** The private round that the device is in. */
export const PRIVATE_ROUND = "private-round.json";

/** A place for one device's few files. */
export interface DevicePlace {
  /** How an error calls it. */
  readonly name: string;
  /** The device's key, made where there is none; in a browser no script can read its private half. */
  signer(): Promise<Signer>;
  /** The key that other devices know it by in private rounds, made and kept as the first is. */
  deviceKey(): Promise<AgreementKey>;
  /** The file's bytes, null where there is none. */
  read(file: string): Promise<Uint8Array | null>;
  /**
   * Put `data` (null: nothing) in the place of `expected` (null: of nothing), durably; false, and
   * nothing is changed, where something else is there by now. Throws ArtifactError (no space).
   */
  replace(file: string, expected: Uint8Array | null, data: Uint8Array | null): Promise<boolean>;
  /** Remove everything, the keys and the ledger too. */
  destroy(): Promise<void>;
}

/** A place that lasts as long as this object. */
export class MemoryPlace implements DevicePlace {
  readonly name = "the device's memory";
  readonly #files = new Map<string, Uint8Array>();
  #signer: Promise<Signer> | null = null;
  #deviceKey: Promise<AgreementKey> | null = null;

  signer(): Promise<Signer> {
    this.#signer ??= newKeyPair().then(signerOf);
    return this.#signer;
  }

  deviceKey(): Promise<AgreementKey> {
    this.#deviceKey ??= newAgreementPair().then(agreementKeyOf);
    return this.#deviceKey;
  }

  async read(file: string): Promise<Uint8Array | null> {
    return this.#files.get(file) ?? null;
  }

  async replace(file: string, expected: Uint8Array | null, data: Uint8Array | null): Promise<boolean> {
    if (!sameBytes(this.#files.get(file) ?? null, expected)) return false;
    if (data === null) this.#files.delete(file);
    else this.#files.set(file, Uint8Array.from(data));
    return true;
  }

  async destroy(): Promise<void> {
    this.#files.clear();
    this.#signer = null;
    this.#deviceKey = null;
  }
}

/** Whether both are the same bytes, or nothing. */
export function sameBytes(left: Uint8Array | null, right: Uint8Array | null): boolean {
  if (left === null || right === null) return left === right;
  return left.length === right.length && left.every((byte, i) => byte === right[i]);
}
