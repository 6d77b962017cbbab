/** The SDK for pages, web views and Electron's renderer: bundles by address, a runtime of its own. */

import { DEFAULT_BUNDLE } from "./default_bundle.js";
import type { Encoder } from "./encoder.js";
import { openSource, type Place } from "./files/place.js";
import type { OnnxRuntime } from "./graph.js";
import * as core from "./loading.js";
import { checkOptions } from "./texts.js";

export * from "./main.js";
export { DEFAULT_BUNDLE };
export { openSource, type OpenSourceOptions, type Place } from "./files/place.js";

/** As the core's options; where no onnxruntime is given, `pocketquery/runtime` takes its place. */
export type LoadOptions = Omit<core.LoadOptions, "onnxruntime"> & {
  readonly onnxruntime?: OnnxRuntime;
};
export type VerifyOptions = Omit<core.VerifyOptions, "onnxruntime"> & {
  readonly onnxruntime?: OnnxRuntime;
};

/**
 * Open a bundle; without one, the built-in bundle, whose files a bundler copies, or which is served as
 * `default/` beside `dist/`. Errors as the core's `load`.
 */
export async function load(bundle: Place = DEFAULT_BUNDLE, options: LoadOptions = {}): Promise<Encoder> {
  return core.load(await openSource(bundle, checkOptions(options)), await withRuntime(options));
}

/** Check a bundle whole. Errors as the core's `verify`. */
export async function verify(
  bundle: Place = DEFAULT_BUNDLE,
  options: VerifyOptions = {},
): Promise<core.VerificationReport> {
  return core.verify(await openSource(bundle, checkOptions(options)), await withRuntime(options));
}

async function withRuntime<T extends { readonly onnxruntime?: OnnxRuntime }>(
  options: T,
): Promise<T & { onnxruntime: OnnxRuntime }> {
  // Imported where it is wanted, so that a bundler leaves it out of what brings an onnxruntime.
  return { ...options, onnxruntime: options.onnxruntime ?? (await import("./runtime/runtime.js")) };
}
