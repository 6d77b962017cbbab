/** Where a page's bundle or index lies: an address, an address for each file, or a source. */

import { InvalidInputError } from "../errors.js";
import { kindOf } from "../python_text.js";
import { absolute, type Addresses, FetchSource } from "./fetch.js";
import { MemorySource } from "./memory.js";
import { checkSource, type FileSource, type Progress } from "./source.js";
import { ZipSource } from "./zip.js";

/** A bundle's address (a folder, or a ".zip"), the address of each of its files by name, or a source. */
export type Place = string | URL | Addresses | FileSource;

/** How a place is opened: what a zip's download listens to, and tells. */
export interface OpenSourceOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** The files of a place; those of a zip, which is fetched whole, where the address ends in ".zip". */
export async function openSource(
  place: Place,
  { signal, onProgress }: OpenSourceOptions = {},
): Promise<FileSource> {
  if (isAddresses(place)) return new FetchSource(place);
  if (typeof place !== "string" && !(place instanceof URL)) return checkSource(place, "the place");
  const address = String(place);
  if (!/\.zip(?:[?#]|$)/.test(address)) return new FetchSource(address);
  const whole = absolute(address);
  whole.hash = "";
  const file = decoded(whole.pathname.slice(whole.pathname.lastIndexOf("/") + 1)) || address;
  // At its whole address, as it stands: what is escaped there is not to be escaped again.
  const source = new FetchSource(new URL(".", whole), (_, init) => fetch(whole.href, init));
  const onBytes = (bytes: number, size?: number) => onProgress?.({ file, bytes, size: size ?? null });
  const bytes = await source.read(file, { onBytes, ...(signal && { signal }) });
  return ZipSource.open(new MemorySource({ [file]: bytes }), file, address);
}

function isAddresses(place: unknown): place is Addresses {
  if (typeof place !== "object" || place === null || place instanceof URL || "read" in place) return false;
  const values = Object.values(place);
  return values.length > 0 && values.every((value) => typeof value === "string" || value instanceof URL);
}

/** A place that can be sent to a worker: addresses, or the files themselves by name. */
export type Sendable = string | URL | Addresses | ReadonlyMap<string, Uint8Array>;

/**
 * `place` with whole addresses: a relative one is the page's, not that of the worker's script.
 * @throws InvalidInputError it is none that can be sent; an error calls it `name`
 */
export function sendable(place: Sendable, name: string): Sendable {
  if (typeof place === "string" || place instanceof URL) return absolute(String(place)).href;
  if (place instanceof Map) return place;
  if (!isAddresses(place)) {
    throw new InvalidInputError(
      `${name} is ${kindOf(place)}, expected an address, an object with the address of each file, or a Map of files`,
    );
  }
  return Object.fromEntries(Object.entries(place).map(([file, address]) => [file, absolute(String(address)).href]));
}

/** The files of a place that was sent. */
export async function openSent(place: Sendable, options: OpenSourceOptions): Promise<FileSource> {
  return place instanceof Map ? new MemorySource(place) : openSource(place as string | Addresses, options);
}

/** For people to read. */
function decoded(escaped: string): string {
  try {
    return decodeURIComponent(escaped);
  } catch {
    return escaped; // it is not UTF-8
  }
}
