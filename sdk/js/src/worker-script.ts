/**
 * A worker that is ready: one file without a bundler. onnxruntime-web is imported from where the page
 * says (`WorkerLoadOptions.onnxruntime`).
 */

import type { OnnxRuntime } from "./graph.js";
import { InvalidInputError } from "./errors.js";
import type { Port } from "./rpc.js";
import { serveEncoder } from "./worker.js";

type WebRuntime = OnnxRuntime & {
  readonly env: { readonly wasm: { numThreads?: number; wasmPaths?: unknown } };
};

serveEncoder(globalThis as unknown as Port, async ({ onnxruntime }) => {
  if (onnxruntime === undefined) {
    throw new InvalidInputError(
      "onnxruntime is not set, expected { module: the address of onnxruntime-web's module }",
    );
  }
  const address: string = onnxruntime.module;
  const runtime = (await import(address)) as WebRuntime;
  runtime.env.wasm.numThreads ??= 1; // a query gains nothing from more
  if (onnxruntime.wasmPaths !== undefined) runtime.env.wasm.wasmPaths = onnxruntime.wasmPaths;
  return runtime;
});
