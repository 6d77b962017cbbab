/**
 * X25519 (RFC 7748) through the platform's WebCrypto: keys with which two devices agree on a secret;
 * Python's `client/private/keys.py`.
 */

import { InvalidInputError, MissingExtraError } from "../errors.js";
import { hexadecimal } from "../platform/hashing.js";
import { fromBase64 } from "../platform/base64.js";

export const KEY_BYTES = 32;

/** What stands before the 32 bytes of a private key in PKCS 8 (RFC 8410). */
const PKCS8 = Uint8Array.from([
  0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x04, 0x22, 0x04, 0x20,
]);
const FIELD = 2n ** 255n - 19n; // of Curve25519
/** The points of small order; the secret agreed with one is zero, whoever agrees (RFC 7748, 6.1). */
const SMALL_ORDER = [
  0n,
  1n,
  FIELD - 1n,
  325606250916557431795983626356110631294008115727848805560023387167927233504n,
  39382357235489614581723060781553021112529911719440698176882885853963445705823n,
];

/** A key pair's private half, at work. */
export interface AgreementKey {
  /** The public half, 32 bytes. */
  readonly publicKey: Uint8Array;
  /** The 32 secret bytes that it and the private half of `other` share. Throws InvalidInputError. */
  agree(other: Uint8Array): Promise<Uint8Array<ArrayBuffer>>;
}

/** A key pair whose private half no script can read; in a browser it is kept as it is. */
export async function newAgreementPair(): Promise<CryptoKeyPair> {
  return withX25519((subtle) => subtle.generateKey("X25519", false, ["deriveBits"])) as Promise<CryptoKeyPair>;
}

/** The key of a pair. */
export async function agreementKeyOf(pair: CryptoKeyPair): Promise<AgreementKey> {
  const raw = await withX25519((subtle) => subtle.exportKey("raw", pair.publicKey));
  return agreeing(pair.privateKey, new Uint8Array(raw));
}

/** The key with a private half of 32 bytes. Throws InvalidInputError or MissingExtraError. */
export async function agreementKeyOfBytes(privateKey: Uint8Array): Promise<AgreementKey> {
  checkLength("a private key", privateKey);
  const pkcs8 = Uint8Array.from([...PKCS8, ...privateKey]);
  // Readable for a moment: the public half is told by no other call.
  const key = await withX25519((subtle) => subtle.importKey("pkcs8", pkcs8, "X25519", true, ["deriveBits"]));
  const { x = "" } = await withX25519((subtle) => subtle.exportKey("jwk", key));
  return agreeing(key, fromBase64(x.replace(/-/g, "+").replace(/_/g, "/")));
}

/**
 * Returns where `publicKey` is the one encoding of an X25519 key of large order. Others are refused,
 * for one device might pass for two with them. Throws InvalidInputError.
 */
export function checkAgreementKey(publicKey: Uint8Array): void {
  checkLength("a public key", publicKey);
  const value = BigInt(`0x${hexadecimal(Uint8Array.from(publicKey).reverse())}`);
  if (value >= FIELD) {
    throw new InvalidInputError(
      `the public key ${hexadecimal(publicKey)} is above the field of Curve25519, expected the reduced ` +
        "encoding that every implementation writes",
    );
  }
  if (SMALL_ORDER.includes(value)) {
    throw new InvalidInputError(
      `the public key ${hexadecimal(publicKey)} is a point of small order: everybody can tell what is ` +
        "agreed with it; expected a device's key",
    );
  }
}

function agreeing(privateKey: CryptoKey, publicKey: Uint8Array): AgreementKey {
  return {
    publicKey,
    agree: async (other) => {
      checkAgreementKey(other);
      return withX25519(async (subtle) => {
        const found = await subtle.importKey("raw", Uint8Array.from(other), "X25519", false, []);
        const secret = await subtle.deriveBits({ name: "X25519", public: found }, privateKey, 8 * KEY_BYTES);
        return new Uint8Array(secret);
      });
    },
  };
}

function checkLength(what: string, data: Uint8Array): void {
  if (data.length !== KEY_BYTES) {
    throw new InvalidInputError(`${what} has ${KEY_BYTES} bytes, found ${data.length}`);
  }
}

async function withX25519<T>(work: (subtle: SubtleCrypto) => Promise<T>): Promise<T> {
  try {
    return await work(crypto.subtle);
  } catch (error) {
    throw new MissingExtraError(
      "private rounds need X25519 and this platform's WebCrypto cannot; use Node 20, Chrome 137, " +
        "Firefox 130, Safari 17 or newer, and a page of https or localhost",
      { cause: error },
    );
  }
}
