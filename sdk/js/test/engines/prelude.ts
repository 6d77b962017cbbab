/** What the README says that React Native is to be given: WebCrypto; and the timer that it has. */

import { sha256 } from "@noble/hashes/sha2.js";

/** Puts them in place. */
export function prepare(): void {
  const scope = globalThis as Record<string, unknown>;
  scope["crypto"] ??= {
    getRandomValues: (bytes: Uint8Array) => bytes.map(() => 256 * Math.random()),
    subtle: { digest: async (_: string, bytes: Uint8Array) => sha256(Uint8Array.from(bytes)).buffer },
  };
  scope["setTimeout"] ??= (work: () => void) => void Promise.resolve().then(work);
}
