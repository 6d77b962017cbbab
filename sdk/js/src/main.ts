/** The SDK's core: everything but what a platform brings (files, onnxruntime). */

export {
  ADAPTER_FORMAT,
  type AdapterRelease,
  LARGEST_RELEASE,
  parseAdapter,
  readAdapter,
} from "./bundle/adapter.js";
export type { AdapterTensor, AdapterTensors } from "./bundle/adapter_tensors.js";
export { Bundle, type BundleOptions } from "./bundle/bundle.js";
export { type AdapterSource, type EncodeOptions, Encoder, type EncoderOptions } from "./encoder.js";
export * from "./errors.js";
export { type Addresses, type Fetch, FetchSource } from "./files/fetch.js";
export type { CacheOption, FileCache } from "./files/cache/cache.js";
export { IndexedDbCache } from "./files/cache/indexed_db_cache.js";
export { MemorySource } from "./files/memory.js";
export type { FileSource, Progress, RangeOptions, ReadOptions } from "./files/source.js";
export { ZipSource } from "./files/zip.js";
export type { GoldenAgreement } from "./bundle/golden.js";
export type { OnnxRuntime, SessionOptions } from "./graph.js";
export {
  load,
  type LoadOptions,
  type VerificationReport,
  verify,
  type VerifyOptions,
} from "./loading.js";
export type { FileEntry, Manifest, TokenizerSpec } from "./bundle/manifest.js";
export { type Key, keyId } from "./bundle/signature.js";
export { openTokenizer } from "./tokenizer/open_tokenizer.js";
export type { Tokenizer } from "./tokenizer/tokenizer.js";
