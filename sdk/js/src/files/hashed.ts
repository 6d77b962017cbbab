/** A file that was hashed where it was read is not hashed again by its reader. */

import { sha256 } from "../platform/hashing.js";

const hashes = new WeakMap<Uint8Array, string>();

/** `bytes` as an array of its own for one reader, of which {@link handedSha256} knows the hash. */
export function handed(bytes: Uint8Array, hash: string): Uint8Array {
  const own = bytes.subarray();
  hashes.set(own, hash);
  return own;
}

/** The SHA-256 of bytes that were read: the one that came with them, once; else computed. */
export async function handedSha256(bytes: Uint8Array): Promise<string> {
  const hash = hashes.get(bytes);
  hashes.delete(bytes); // they may change from now on
  return hash ?? sha256(bytes);
}
