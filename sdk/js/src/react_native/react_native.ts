/**
 * The SDK for React Native: an app's files, and what Hermes lacks.
 *
 *     const encoder = await load(await openSource(files, `${folder}/encoder.zip`));
 *     const changes = new FileSystemChanges(files, `${folder}/changes`);
 *     const index = await openIndex(await openSource(files, `${folder}/index`), { encoder, changes });
 *
 * Nothing is to be installed beside it: the encoder runs in WebAssembly where there is some and in plain
 * JavaScript elsewhere, hashes are computed here where there is no WebCrypto, and texts are decoded without
 * TextDecoder. A signal may be a polyfill's.
 */

import { hashPlainly } from "../platform/hashing.js";
import type { Encoder } from "../encoder.js";
import type { FileSource } from "../files/source.js";
import type { OnnxRuntime } from "../graph.js";
import * as core from "../loading.js";
import { plainSha256 } from "../platform/sha256.js";
import { checkOptions } from "../texts.js";
import * as runtime from "./runtime.js";

hashPlainly(plainSha256);

export * from "../main.js";
export * from "../index/index.js";
export { fromBase64, toBase64 } from "../platform/base64.js";
export { type FileSystem, FileSystemSource, openSource, type ReadableFileSystem } from "./file_system.js";
export { FileSystemChanges } from "./file_system_changes.js";

/** As the core's options; where no onnxruntime (onnxruntime-react-native) is given, our own runtime takes its place. */
export type LoadOptions = Omit<core.LoadOptions, "onnxruntime"> & { readonly onnxruntime?: OnnxRuntime };
export type VerifyOptions = Omit<core.VerifyOptions, "onnxruntime"> & { readonly onnxruntime?: OnnxRuntime };

/** Open the bundle in `source`. Errors as the core's `load`. */
export async function load(source: FileSource, options: LoadOptions = {}): Promise<Encoder> {
  return core.load(source, { ...checkOptions(options), onnxruntime: options.onnxruntime ?? runtime });
}

/** Check a bundle whole. Errors as the core's `verify`. */
export async function verify(source: FileSource, options: VerifyOptions = {}): Promise<core.VerificationReport> {
  return core.verify(source, { ...checkOptions(options), onnxruntime: options.onnxruntime ?? runtime });
}
