/** What our own WebAssembly modules share: how they lie in the source, and how their memory grows. */

import { ArtifactError } from "./errors.js";

const PAGE = 65536;

/** The bytes of a module that lies in the source as base64. */
export function unpacked(module: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(module), (byte) => byte.charCodeAt(0));
}

/** `bytes` more memory. Throws ArtifactError: there is none, for `what`, which says what to do, too. */
export function grow(memory: { grow(pages: number): number }, bytes: number, what: string): void {
  try {
    memory.grow(Math.ceil(bytes / PAGE));
  } catch (error) {
    throw new ArtifactError(`there is no memory for ${bytes} more bytes of ${what}`, { cause: error });
  }
}
