/** Putting a file in the place of another, for Node: whoever reads gets the old or the new. */

import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { exclusively } from "../secure/exclusively.js";

/** Do `work` while nobody else in this process does any on the file at `path`. */
export function inTurn<T>(path: string, work: () => Promise<T>): Promise<T> {
  return exclusively(`file ${resolve(path)}`, work);
}

/** Whether the system said that there is no space, or no more of it for this user. */
export function isFull(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === "ENOSPC" || code === "EDQUOT";
}

/** Write `bytes` to `path` in one step, for its owner alone; its folder is made where it is not there. */
export async function replaceFile(path: string, bytes: Uint8Array): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true });
  const temporary = `${path}.${randomBytes(4).toString("hex")}.tmp`;
  const file = await open(temporary, "wx", 0o600);
  try {
    try {
      await writeAll(file, bytes, 0);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(folder);
}

/** Overwrite the file at `path` with zeros and remove it, and what a killed `replaceFile` left beside it. */
export async function eraseFile(path: string): Promise<void> {
  const file = await open(path, "r+").catch(() => null); // what cannot be written may be removed all the same
  try {
    if (file !== null) {
      await writeAll(file, new Uint8Array((await file.stat()).size), 0);
      await file.sync();
    }
  } finally {
    await file?.close();
  }
  await rm(path, { force: true });
  await removeLeft(path);
}

/**
 * Remove what a killed `replaceFile` left beside `path`. One that runs meanwhile in another process
 * may lose its file, and then fails.
 */
export async function removeLeft(path: string): Promise<void> {
  const folder = dirname(path);
  const begin = `${basename(path)}.`;
  const names = await readdir(folder).catch((error: { code?: unknown }) => {
    if (error.code === "ENOENT") return []; // no folder, nothing in it
    throw error;
  });
  for (const name of names) {
    const isLeft = name.startsWith(begin) && /^[0-9a-f]+\.tmp$/.test(name.slice(begin.length));
    if (isLeft) await rm(join(folder, name), { force: true });
  }
}

/** Write all of `bytes` at `position`. */
export async function writeAll(
  file: Awaited<ReturnType<typeof open>>,
  bytes: Uint8Array,
  position: number,
): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/** So that the new name outlasts a loss of power; Windows has no such call. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
