/** A bundle's files, copied to where an app serves them. For Node. */

import { randomBytes } from "node:crypto";
import { copyFile, mkdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { ArtifactError, ArtifactNotFoundError } from "../errors.js";

const MANIFEST = "manifest.json";

/** What is in the folder now. */
export interface Copied {
  readonly files: readonly string[];
  readonly bytes: number;
}

/**
 * Copy the bundle in the folder `bundle` into `folder`, which is made where it is not there.
 *
 * Each file takes the place of an older one in one step, the manifest last; one that is there already stays as it
 * is, so that nothing that watches the folder begins anew.
 *
 * Throws ArtifactNotFoundError (there is no bundle) or ArtifactError (the folder cannot be written).
 */
export async function copyBundle(bundle: string, folder: string): Promise<Copied> {
  const manifest = await readFile(join(bundle, MANIFEST), "utf8").catch((error: unknown) => {
    throw new ArtifactNotFoundError(`${bundle}: found no ${MANIFEST} in it; install pocketquery again`, { cause: error });
  });
  const files = [...Object.keys((JSON.parse(manifest) as { files: object }).files), MANIFEST];
  let bytes = 0;
  try {
    await mkdir(folder, { recursive: true });
    for (const file of files) bytes += await copyOne(join(bundle, file), join(folder, file));
  } catch (error) {
    throw new ArtifactError(`${folder} cannot be written: ${(error as Error).message}; name a folder of yours`, { cause: error });
  }
  return { files, bytes };
}

/** The file's size. */
async function copyOne(from: string, to: string): Promise<number> {
  const [wanted, there] = await Promise.all([readFile(from), readFile(to).catch(() => null)]);
  if (there !== null && wanted.equals(there)) return wanted.length;
  const temporary = `${to}.${randomBytes(4).toString("hex")}.tmp`;
  try {
    await copyFile(from, temporary);
    await rename(temporary, to);
  } finally {
    await rm(temporary, { force: true });
  }
  return wanted.length;
}
