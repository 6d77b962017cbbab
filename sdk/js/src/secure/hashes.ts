/**
 * SHA-2, HMAC and HKDF without waiting, of @noble/hashes, which the build puts into this file. WebCrypto
 * has them, too, but each call of it waits for another thread, and a stage makes hundreds.
 */

import { hkdf } from "@noble/hashes/hkdf.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256, sha512 } from "@noble/hashes/sha2.js";

export { sha256, sha512 };

/** The 32 bytes of HMAC-SHA-256. */
export function hmacSha256(key: Uint8Array, message: Uint8Array): Uint8Array {
  return hmac(sha256, key, message);
}

/** `size` bytes of HKDF-SHA-256 (RFC 5869) of `secret`, without salt. */
export function hkdfSha256(secret: Uint8Array, info: Uint8Array, size: number): Uint8Array {
  return hkdf(sha256, secret, undefined, info, size);
}
