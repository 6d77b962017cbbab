/**
 * Where a page finds the built-in bundle: each file by an address of its own, in the form that bundlers
 * take for a reference to a file. They copy it beside the built page, mostly under another name.
 */

import type { Addresses } from "./files/fetch.js";

export const DEFAULT_BUNDLE: Addresses = {
  "manifest.json": new URL("../default/manifest.json", import.meta.url).href,
  "encoder.onnx": new URL("../default/encoder.onnx", import.meta.url).href,
  "tokenizer.json": new URL("../default/tokenizer.json", import.meta.url).href,
  "adapter.safetensors": new URL("../default/adapter.safetensors", import.meta.url).href,
  "golden.json": new URL("../default/golden.json", import.meta.url).href,
};
