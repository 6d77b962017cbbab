/** The file `signature` beside a manifest: whether it is there. Who made it, bundle.ts finds out with a key. */

import { ArtifactNotFoundError, SignatureError } from "../errors.js";
import type { FileSource, ReadOptions } from "../files/source.js";
import { repr } from "../python_text.js";

export const SIGNATURE_FILE = "signature";
export const SIGNATURE_BYTES = 64;

/** Without a key nobody can tell who signed; that the signature is there, anybody can. */
export async function checkPresent(
  source: FileSource,
  claimed: string | null,
  options: ReadOptions = {},
): Promise<void> {
  if (claimed === null) return;
  if ((await readSignature(source, options))?.byteLength === SIGNATURE_BYTES) return;
  throw new SignatureError(
    `${source.name} says it is signed by the key ${repr(claimed)} and has no signature of ` +
      `${SIGNATURE_BYTES} bytes; it was taken away. Fetch it from its publisher`,
  );
}

/** Its bytes, at most one too many; null where it is not there. */
export async function readSignature(source: FileSource, options: ReadOptions): Promise<Uint8Array | null> {
  try {
    return await source.read(SIGNATURE_FILE, { ...options, limit: SIGNATURE_BYTES + 1 });
  } catch (error) {
    if (error instanceof ArtifactNotFoundError) return null;
    throw error;
  }
}
