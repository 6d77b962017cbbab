/**
 * In the worker: onnxruntime-web, which trains. What is searched with needs none of it, so it is loaded
 * when the user wants to learn.
 */

const FOLDER = new URL("onnxruntime/", location.href);
const FILES = ["ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"];

/** Now, so that the service worker keeps it for times without a network. */
export async function fetchTrainer() {
  for (const name of FILES) {
    const response = await fetch(new URL(name, FOLDER));
    if (!response.ok) throw new Error(`${name}: HTTP ${response.status}`);
    await response.arrayBuffer();
  }
}

/** An onnxruntime for `LocalStep.open`. */
export async function loadTrainer() {
  const onnxruntime = await import("./onnxruntime/ort.wasm.min.mjs");
  onnxruntime.env.wasm.numThreads = 1; // a step of some queries gains nothing from more
  onnxruntime.env.wasm.wasmPaths = FOLDER.href;
  return onnxruntime;
}
