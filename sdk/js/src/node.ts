/** The SDK for Node and Electron's main process: folders and zips on disk, onnxruntime-node. */

import { stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { deserialize, serialize } from "node:v8";
import type { Encoder } from "./encoder.js";
import { ArtifactNotFoundError, MissingExtraError } from "./errors.js";
import { type Copied, copyBundle } from "./files/copy_bundle.js";
import { FolderSource } from "./files/folder.js";
import { checkSource, type FileSource } from "./files/source.js";
import { ZipSource } from "./files/zip.js";
import type { OnnxRuntime } from "./graph.js";
import * as core from "./loading.js";
import { checkOptions } from "./texts.js";

export * from "./main.js";
export { type Copied, FolderSource };

/**
 * As the core's options; where no onnxruntime is given, onnxruntime-node is taken, or
 * `pocketquery/runtime` where that package is not installed, and in Jest, where it does not run.
 */
export type LoadOptions = Omit<core.LoadOptions, "onnxruntime"> & {
  readonly onnxruntime?: OnnxRuntime;
};
export type VerifyOptions = Omit<core.VerifyOptions, "onnxruntime"> & {
  readonly onnxruntime?: OnnxRuntime;
};

/** The folder of the built-in bundle. Not as `new URL(...)`, which bundlers take for a file to copy. */
export const DEFAULT_BUNDLE = join(dirname(fileURLToPath(import.meta.url)), "..", "default");

/**
 * Copy the built-in bundle into `folder`, for bundlers that do not know addresses of packages:
 *
 *     await copyDefault("public/encoder"); // and in the page: load("/encoder")
 *
 * As `npx pocketquery-copy-default public/encoder`. Throws ArtifactNotFoundError (this package was installed without
 * its bundle) or ArtifactError (the folder cannot be written).
 */
export function copyDefault(folder: string): Promise<Copied> {
  return copyBundle(DEFAULT_BUNDLE, folder);
}

/**
 * Open the bundle at a path (a folder, or a zip of it) or in a source; without one, the built-in
 * bundle. Errors as the core's `load`.
 */
export async function load(
  bundle: string | FileSource = DEFAULT_BUNDLE,
  options: LoadOptions = {},
): Promise<Encoder> {
  return core.load(await openSource(bundle), await withRuntime(checkOptions(options)));
}

/** Check a bundle whole. Errors as the core's `verify`. */
export async function verify(
  bundle: string | FileSource = DEFAULT_BUNDLE,
  options: VerifyOptions = {},
): Promise<core.VerificationReport> {
  return core.verify(await openSource(bundle), await withRuntime(checkOptions(options)));
}

/** The folder or zip at a path. Throws ArtifactNotFoundError or CorruptArtifactError. */
export async function openSource(place: string | FileSource): Promise<FileSource> {
  if (typeof place !== "string") return checkSource(place, "the place");
  const found = await stat(place).catch(() => null);
  if (found?.isDirectory()) return new FolderSource(place);
  if (found?.isFile()) {
    return ZipSource.open(new FolderSource(dirname(place)), basename(place), place);
  }
  throw new ArtifactNotFoundError(
    `${place}: found nothing there, expected a folder or a zip of one, or ` +
      "no path: the built-in one",
  );
}

async function withRuntime<T extends { readonly onnxruntime?: OnnxRuntime }>(
  options: T,
): Promise<T & { onnxruntime: OnnxRuntime }> {
  return { ...options, onnxruntime: options.onnxruntime ?? (await importRuntime()) };
}

async function importRuntime(): Promise<OnnxRuntime> {
  if (isSandboxed()) return import("./runtime/runtime.js");
  // It reports on its users, unless it is told not to before it is loaded.
  process.env["ORT_DISABLE_TELEMETRY"] ??= "1";
  try {
    const module: Partial<OnnxRuntime> & { readonly default?: Partial<OnnxRuntime> } = await import("onnxruntime-node");
    // A bundler may have put its exports under another name, or nothing in its place.
    const runtime = [module, module.default].find((one) => one?.InferenceSession !== undefined);
    return (runtime as OnnxRuntime | undefined) ?? (await import("./runtime/runtime.js"));
  } catch (error) {
    const { code, message } = error as Error & { readonly code?: string };
    // Jest, and what calls `require`, have the second code.
    if (/^(ERR_)?MODULE_NOT_FOUND$/.test(code ?? "") && message.includes("'onnxruntime-node'")) {
      return import("./runtime/runtime.js");
    }
    throw new MissingExtraError(
      'the package "onnxruntime-node" is there and cannot be loaded; install it again with: ' +
        `npm install onnxruntime-node, or pass another one as onnxruntime (${message})`,
      { cause: error },
    );
  }
}

/** Whether arrays that Node makes are of another realm than ours, as in Jest: onnxruntime-node takes its own alone. */
function isSandboxed(): boolean {
  return !(deserialize(serialize(new Float32Array(1))) instanceof Float32Array);
}

export { FileChanges } from "./index/changes/file_changes.js";
export { FileBackend } from "./store/file.js";
export { FolderPlace } from "./gateway/folder_place.js";
