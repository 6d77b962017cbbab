/**
 * Requests that a device's key signed: HTTP Message Signatures (RFC 9421), the one profile of them
 * that docs/gateway.md describes and Python's `client/gateway/signing.py` writes.
 */

import { InvalidInputError, MissingExtraError } from "../errors.js";
import { fromBase64, toBase64 } from "../platform/base64.js";
import { hexadecimal } from "../platform/hashing.js";
import { encodeUtf8 } from "../utf8.js";

/** The header with a training's figures. */
export const FIGURES_HEADER = "pocketquery-figures";

const KEY_BYTES = 32;
const NONCE_BYTES = 16;
/** What stands before the 32 bytes of a private key in PKCS 8 (RFC 8410). */
const PKCS8 = Uint8Array.from([
  0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
]);

/** What signs: a device's own Ed25519 key. */
export interface Signer {
  /** 32 bytes: the device's name at its gateway, and nowhere else. */
  readonly publicKey: Uint8Array;
  sign(message: Uint8Array): Promise<Uint8Array>;
}

/** A request to sign. */
export interface Unsigned {
  readonly method: string;
  /** The host, with the port where the address names one. */
  readonly authority: string;
  /** As it is sent, without a query. */
  readonly path: string;
  readonly body?: Uint8Array;
  /** Seconds since 1970. */
  readonly created: number;
  /** 16 random bytes, for this request alone. */
  readonly nonce: Uint8Array;
  /** The value of the header of figures, where it is sent. */
  readonly figures?: string | null;
}

/** A key pair whose private half no script can read; in a browser it is kept as it is. */
export async function newKeyPair(): Promise<CryptoKeyPair> {
  return withEd25519((subtle) => subtle.generateKey("Ed25519", false, ["sign", "verify"])) as Promise<CryptoKeyPair>;
}

/** What signs with a key pair. */
export async function signerOf(pair: CryptoKeyPair): Promise<Signer> {
  const raw = await withEd25519((subtle) => subtle.exportKey("raw", pair.publicKey));
  return signing(pair.privateKey, new Uint8Array(raw));
}

/** What signs with a private key of 32 bytes. Throws InvalidInputError or MissingExtraError. */
export async function signerOfBytes(privateKey: Uint8Array): Promise<Signer> {
  if (privateKey.length !== KEY_BYTES) {
    throw new InvalidInputError(
      `the private key has ${privateKey.length} bytes, expected ${KEY_BYTES} (raw Ed25519)`,
    );
  }
  const pkcs8 = Uint8Array.from([...PKCS8, ...privateKey]);
  // Readable for a moment: the public half is told by no other call.
  const readable = await withEd25519((subtle) =>
    subtle.importKey("pkcs8", pkcs8, "Ed25519", true, ["sign"]),
  );
  const { x = "" } = await withEd25519((subtle) => subtle.exportKey("jwk", readable));
  const key = await withEd25519((subtle) =>
    subtle.importKey("pkcs8", pkcs8, "Ed25519", false, ["sign"]),
  );
  return signing(key, fromBase64(x.replace(/-/g, "+").replace(/_/g, "/")));
}

/** The headers that sign a request, by names in small letters. */
export async function signedHeaders(signer: Signer, request: Unsigned): Promise<Record<string, string>> {
  const { method, authority, path, created, nonce, figures = null } = request;
  if (nonce.length !== NONCE_BYTES) {
    throw new InvalidInputError(`the nonce has ${nonce.length} bytes, expected ${NONCE_BYTES}`);
  }
  const names = ["@method", "@authority", "@path", "content-digest"];
  if (figures !== null) names.push(FIGURES_HEADER);
  const parameters =
    `(${names.map((name) => `"${name}"`).join(" ")});created=${created};` +
    `nonce="${hexadecimal(nonce)}";keyid="${hexadecimal(signer.publicKey)}";alg="ed25519"`;
  const digest = await contentDigest(request.body ?? new Uint8Array());
  const lines = [
    `"@method": ${method}`,
    `"@authority": ${authority.toLowerCase()}`,
    `"@path": ${path}`,
    `"content-digest": ${digest}`,
    ...(figures === null ? [] : [`"${FIGURES_HEADER}": ${figures}`]),
    `"@signature-params": ${parameters}`,
  ];
  const signature = await signer.sign(encodeUtf8(lines.join("\n")));
  return {
    "content-digest": digest,
    "signature-input": `sig1=${parameters}`,
    signature: `sig1=:${toBase64(signature)}:`,
    ...(figures !== null && { [FIGURES_HEADER]: figures }),
  };
}

/** The value of `Content-Digest` for a body. */
export async function contentDigest(body: Uint8Array): Promise<string> {
  const digest = await withEd25519((subtle) => subtle.digest("SHA-256", Uint8Array.from(body)));
  return `sha-256=:${toBase64(new Uint8Array(digest))}:`;
}

function signing(key: CryptoKey, publicKey: Uint8Array): Signer {
  return {
    publicKey,
    sign: async (message) =>
      new Uint8Array(
        await withEd25519((subtle) => subtle.sign("Ed25519", key, Uint8Array.from(message))),
      ),
  };
}

async function withEd25519<T>(work: (subtle: SubtleCrypto) => Promise<T>): Promise<T> {
  try {
    return await work(crypto.subtle);
  } catch (error) {
    throw new MissingExtraError(
      "a device signs with Ed25519 and this platform's WebCrypto cannot; use Node 20, Chrome 137, " +
        "Firefox 129, Safari 17 or newer, and a page of https or localhost",
      { cause: error },
    );
  }
}
