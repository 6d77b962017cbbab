/** An index whose publisher's key is given: who signed it, as it was built or as deltas made it. */
import { checkDetached } from "../../bundle/bundle.js";
import type { Key } from "../../bundle/signature.js";
import { ArtifactNotFoundError, CorruptArtifactError, SignatureError } from "../../errors.js";
import type { FileSource } from "../../files/source.js";
import { contentsOf } from "./apply.js";
import type { Base } from "./base.js";
import { checkDeltaSpace, DELTA_FILE, type DeltaManifest, MOST_DELTA_BYTES, parseDeltaManifest } from "./manifest.js";

/**
 * The signed description of the delta that was applied last; undefined where the signature is of `info`,
 * the bytes of the file `name`, and not of a delta's description.
 */
export async function readProof(
  source: FileSource,
  info: Uint8Array,
  publicKey: Key,
  name: string,
): Promise<DeltaManifest | undefined> {
  try {
    await checkDetached(source, info, publicKey, {}, name);
    return undefined;
  } catch (error) {
    if (!(error instanceof SignatureError)) throw error;
    const data = await source.read(DELTA_FILE, { limit: MOST_DELTA_BYTES + 1 }).catch((missing: unknown) => {
      if (missing instanceof ArtifactNotFoundError) throw error;
      throw missing;
    });
    await checkDetached(source, data, publicKey, {}, DELTA_FILE);
    return parseDeltaManifest(data, `${source.name}/${DELTA_FILE}`);
  }
}

/** Hold what was read, and whether nothing was changed in Python since, against the hash that a publisher signed. */
export function checkContents(folder: Base, proof: DeltaManifest, isUnchanged: boolean): void {
  if (!isUnchanged) {
    throw new SignatureError(
      `${folder.name} was signed and then changed on this device (add, delete or compact), so it ` +
        "is no longer what its publisher signed; open it without a key, or fetch it anew",
    );
  }
  checkDeltaSpace(folder.name, folder, proof);
  const found = contentsOf(folder);
  if (found === proof.new.sha256) return;
  throw new CorruptArtifactError(
    `${folder.name} was changed after it was written: its contents have the SHA-256 ${found}, ` +
      `expected ${proof.new.sha256}, which ${DELTA_FILE} names; fetch it anew`,
  );
}
