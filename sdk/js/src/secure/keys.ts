/**
 * What derives from the keys of a private round: HKDF-SHA-256 (RFC 5869) under labels that name the
 * round's binding and both devices, marks, and all that a device draws; Python's
 * `client/private/keys.py`.
 *
 * Everything that is random on a device in a round derives from one round secret: the same question
 * gets the same bytes, no key encrypts two plaintexts, and erasing the secret erases the round.
 */

import { InvalidInputError } from "../errors.js";
import { concatenated } from "../files/bytes.js";
import { type AgreementKey, agreementKeyOfBytes, KEY_BYTES } from "../gateway/agreement.js";
import { encodeUtf8 } from "../utf8.js";
import { Keystream } from "./chacha20.js";
import { hkdfSha256, hmacSha256, sha256, sha512 } from "./hashes.js";
import { numberOf } from "./layout.js";
import { littleEndian, MODULUS } from "./sharing.js";

export const PROTOCOL = "pocketquery-secure-1";
export const MARK_BYTES = 16;

const INFO = encodeUtf8(`${PROTOCOL} `);

/** SHA-256 of `data`, 32 bytes. */
export function digestOf(...data: Uint8Array[]): Uint8Array {
  return sha256(concatenated(data));
}

/** The 32 bytes that HKDF-SHA-256 makes of `secret` under `label`, without salt. */
export function derive(secret: Uint8Array, label: Uint8Array): Uint8Array {
  return hkdfSha256(secret, concatenated([INFO, label]), KEY_BYTES);
}

/**
 * Of the key of the mark with which `device` proves to the holder of the `announced` key that it holds
 * its own. There is no binding yet that the label could name.
 */
export function readyLabel(federation: Uint8Array, device: Uint8Array, announced: Uint8Array): Uint8Array {
  return concatenated([encodeUtf8("ready "), federation, device, announced]);
}

/** What a key between two devices is for. */
export type PairKind = "box" | "held" | "confirm";

/** The label of the key of what the device `sender` tells the device `receiver`. */
export function pairLabel(kind: PairKind, beta: Uint8Array, sender: Uint8Array, receiver: Uint8Array): Uint8Array {
  return concatenated([encodeUtf8(`${kind} `), beta, sender, receiver]);
}

/** Of the mask that two devices share ("mask"), or of a device's own ("self"). */
export function maskLabel(kind: "mask" | "self", beta: Uint8Array): Uint8Array {
  return concatenated([encodeUtf8(`${kind} `), beta]);
}

/** A message authentication code: the first 16 bytes of HMAC-SHA-256. */
export function mark(key: Uint8Array, message: Uint8Array): Uint8Array {
  return hmacSha256(key, message).slice(0, MARK_BYTES);
}

/** Whether `found` is the mark of both; takes as long for every `found`. */
export function isMark(key: Uint8Array, message: Uint8Array, found: Uint8Array): boolean {
  const wanted = mark(key, message);
  let other = wanted.length ^ found.length;
  for (const [i, byte] of wanted.entries()) other |= byte ^ (found[i] ?? 0);
  return other === 0;
}

/** The 32 random bytes that decide what a device draws in one round. */
export class RoundSecret {
  readonly #secret: Uint8Array;

  /** `secret` is kept before anything derived from it leaves. Throws InvalidInputError. */
  constructor(secret: Uint8Array) {
    if (secret.length !== KEY_BYTES) {
      throw new InvalidInputError(`a round secret has ${KEY_BYTES} bytes, found ${secret.length}`);
    }
    this.#secret = Uint8Array.from(secret);
  }

  /** The secret behind the device's own mask, 32 bytes. */
  selfSeed(beta: Uint8Array): Uint8Array {
    return this.#derive("self", beta);
  }

  /** The key with which the round's pairwise masks are agreed, and its private half. */
  async maskKey(beta: Uint8Array): Promise<{ readonly key: AgreementKey; readonly privateKey: Uint8Array }> {
    const privateKey = this.#derive("mask", beta);
    return { key: await agreementKeyOfBytes(privateKey), privateKey };
  }

  /** Coefficients 1 to `count` of the polynomial that shares the self seed, or the mask key. */
  coefficients(beta: Uint8Array, part: "self" | "mask", count: number): bigint[] {
    const named = concatenated([this.#derive("coefficients", beta), encodeUtf8(part)]);
    return Array.from({ length: count }, (_, i) => {
      return littleEndian(sha512(concatenated([named, numberOf(i + 1)]))) % MODULUS;
    });
  }

  /** The bits that round a change to codes; from the start at each call. */
  coins(beta: Uint8Array): Keystream {
    return new Keystream(this.#derive("coins", beta));
  }

  /** The bits that the noise is drawn with; from the start at each call. */
  noiseStream(beta: Uint8Array): Keystream {
    return new Keystream(this.#derive("noise", beta));
  }

  /** HMAC-SHA-256 over the protocol's name, the purpose and the binding's digest. */
  #derive(purpose: string, beta: Uint8Array): Uint8Array {
    return hmacSha256(this.#secret, concatenated([INFO, encodeUtf8(`${purpose} `), beta]));
  }
}
