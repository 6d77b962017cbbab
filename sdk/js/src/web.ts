/** The SDK for pages, web views and Electron's renderer: bundles by address, a runtime of its own. */

import type { Encoder } from "./encoder.js";
import { FetchSource } from "./files/fetch.js";
import { MemorySource } from "./files/memory.js";
import { checkSource, type FileSource, type Progress } from "./files/source.js";
import { ZipSource } from "./files/zip.js";
import type { OnnxRuntime } from "./graph.js";
import * as core from "./loading.js";
import { checkOptions } from "./texts.js";

export * from "./main.js";

/** As the core's options; where no onnxruntime is given, `pocketquery/runtime` takes its place. */
export type LoadOptions = Omit<core.LoadOptions, "onnxruntime"> & {
  readonly onnxruntime?: OnnxRuntime;
};
export type VerifyOptions = Omit<core.VerifyOptions, "onnxruntime"> & {
  readonly onnxruntime?: OnnxRuntime;
};

/** Where the built-in bundle is, as long as `default/` is served beside `dist/`. */
export const DEFAULT_BUNDLE = new URL("../default", import.meta.url);

/**
 * Open the bundle at an address (a folder, or a ".zip") or in a source; without one, the
 * built-in bundle. Errors as the core's `load`.
 */
export async function load(
  bundle: string | URL | FileSource = DEFAULT_BUNDLE,
  options: LoadOptions = {},
): Promise<Encoder> {
  return core.load(await openSource(bundle, checkOptions(options)), await withRuntime(options));
}

/** Check a bundle whole. Errors as the core's `verify`. */
export async function verify(
  bundle: string | URL | FileSource = DEFAULT_BUNDLE,
  options: VerifyOptions = {},
): Promise<core.VerificationReport> {
  return core.verify(await openSource(bundle, checkOptions(options)), await withRuntime(options));
}

/** How a place is opened: what a zip's download listens to, and tells. */
export interface OpenSourceOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** The files under an address; those of a zip, which is fetched whole, where it ends in ".zip". */
export async function openSource(
  place: string | URL | FileSource,
  { signal, onProgress }: OpenSourceOptions = {},
): Promise<FileSource> {
  if (typeof place !== "string" && !(place instanceof URL)) return checkSource(place, "the place");
  const address = String(place);
  if (!/\.zip(?:[?#]|$)/.test(address)) return new FetchSource(address);
  const whole = new URL(address, (globalThis as { location?: { href?: string } }).location?.href);
  whole.hash = "";
  const file = decoded(whole.pathname.slice(whole.pathname.lastIndexOf("/") + 1)) || address;
  // At its whole address, as it stands: what is escaped there is not to be escaped again.
  const source = new FetchSource(new URL(".", whole), (_, init) => fetch(whole.href, init));
  const onBytes = (bytes: number, size?: number) => onProgress?.({ file, bytes, size: size ?? null });
  const bytes = await source.read(file, { onBytes, ...(signal && { signal }) });
  return ZipSource.open(new MemorySource({ [file]: bytes }), file, address);
}

/** For people to read. */
function decoded(escaped: string): string {
  try {
    return decodeURIComponent(escaped);
  } catch {
    return escaped; // it is not UTF-8
  }
}

async function withRuntime<T extends { readonly onnxruntime?: OnnxRuntime }>(
  options: T,
): Promise<T & { onnxruntime: OnnxRuntime }> {
  // Imported where it is wanted, so that a bundler leaves it out of what brings an onnxruntime.
  return { ...options, onnxruntime: options.onnxruntime ?? (await import("./runtime/runtime.js")) };
}
