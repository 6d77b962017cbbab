/**
 * Ed25519 (RFC 8032) through the platform's WebCrypto.
 *
 * A bundle's manifest holds the hash of every file, so one signature over its exact bytes, in the
 * file `signature` beside it, covers the bundle. A platform without WebCrypto is an error that says
 * so: nothing is ever skipped in silence.
 */

import { InvalidInputError, MissingExtraError, SignatureError } from "../errors.js";
import { hexadecimal, sha256, shared, subtle } from "../platform/hashing.js";
import { SIGNATURE_BYTES } from "./signature_file.js";

/**
 * An Ed25519 public key: 32 raw bytes, 64 hexadecimal digits, or the text of a PEM file
 * ("-----BEGIN PUBLIC KEY-----...").
 */
export type Key = Uint8Array | string;

const KEY_BYTES = 32;
/** What stands before the 32 bytes of the key in the DER of a PEM file (RFC 8410). */
const SPKI = "302a300506032b6570032100";

/** The short name of a public key: the first 16 hexadecimal digits of its SHA-256. */
export async function keyId(publicKey: Key): Promise<string> {
  return (await sha256(rawKey(publicKey))).slice(0, 16);
}

/**
 * Returns where `signature` was made over `message`, which an error calls `what`, by the private
 * half of `publicKey`.
 *
 * Throws SignatureError where it was not, InvalidInputError where the key is none, and
 * MissingExtraError where the platform has no Ed25519.
 */
export async function checkSignature(
  message: Uint8Array,
  signature: Uint8Array,
  publicKey: Key,
  what = "manifest",
): Promise<void> {
  const raw = rawKey(publicKey);
  if (signature.byteLength !== SIGNATURE_BYTES) {
    throw new SignatureError(
      `the signature has ${signature.byteLength} bytes, expected ${SIGNATURE_BYTES} (raw Ed25519)`,
    );
  }
  const key = await imported(raw);
  if (!(await subtle().verify("Ed25519", key, shared(signature), shared(message)))) {
    throw new SignatureError(
      `the signature was not made over this ${what} by the key ${await keyId(raw)}; ` +
        "what it describes was changed, or comes from somebody else",
    );
  }
}

/** The 32 bytes of `key`. Throws InvalidInputError. */
export function rawKey(key: Key): Uint8Array<ArrayBuffer> {
  if (key instanceof Uint8Array) {
    if (key.byteLength !== KEY_BYTES) {
      throw new InvalidInputError(
        `a raw Ed25519 key has ${KEY_BYTES} bytes, found ${key.byteLength}; ` +
          "a PEM file is given by its text",
      );
    }
    return Uint8Array.from(key);
  }
  const digits = typeof key === "string" ? (pemDigits(key) ?? key) : "";
  if (!/^[0-9a-fA-F]{64}$/.test(digits)) {
    throw new InvalidInputError(
      `the key is neither ${2 * KEY_BYTES} hexadecimal digits nor the text of a PEM file of an ` +
        "Ed25519 public key",
    );
  }
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

function pemDigits(text: string): string | null {
  const found = /-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----/.exec(text);
  if (found?.[1] === undefined) return null;
  try {
    const der = atob(found[1].replace(/\s/g, ""));
    const digits = hexadecimal(Uint8Array.from(der, (c) => c.charCodeAt(0)));
    return digits.startsWith(SPKI) ? digits.slice(SPKI.length) : "";
  } catch {
    return "";
  }
}

async function imported(raw: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  try {
    return await subtle().importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    if (error instanceof MissingExtraError) throw error;
    if ((error as { name?: unknown } | null)?.name === "DataError") {
      throw new InvalidInputError("the key is not an Ed25519 public key", { cause: error });
    }
    throw new MissingExtraError(
      "Ed25519 signatures are needed here and this platform's WebCrypto has none; use Node 20, " +
        "Chrome 137, Firefox 129, Safari 17 or newer, or a polyfill of crypto.subtle, or pass no " +
        "publicKey and do without the signature",
      { cause: error },
    );
  }
}
