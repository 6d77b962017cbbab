/** Opening a bundle for encoding, and checking one whole. */

import { throwIfAborted } from "./platform/cancelling.js";
import { Bundle, type BundleOptions } from "./bundle/bundle.js";
import { Encoder, type EncoderOptions } from "./encoder.js";
import { type CacheOption, withCache } from "./files/cache/cache.js";
import { checkSource, type FileSource } from "./files/source.js";
import { type GoldenAgreement, parseGolden, replay } from "./bundle/golden.js";
import { checkRuntime } from "./graph.js";
import { GOLDEN_FILE, MANIFEST_FILE } from "./bundle/manifest.js";
import { checkOptions, type Names } from "./texts.js";

/** How a bundle is loaded. */
export interface LoadOptions extends BundleOptions, EncoderOptions {
  /** Replay the golden texts before the encoder is handed out. */
  readonly verify?: boolean | undefined;
  /**
   * Keep the bundle's files on the device: true in IndexedDB, or where you say. A later load fetches what is new
   * alone, and works without a network.
   */
  readonly cache?: CacheOption | undefined;
}

/** How a bundle is verified. */
export type VerifyOptions = Omit<LoadOptions, "adapter" | "cache" | "verify" | "verifyHashes">;

const VERIFY_OPTIONS: Names<VerifyOptions> = {
  onnxruntime: true,
  sessionOptions: true,
  publicKey: true,
  signal: true,
  onProgress: true,
};
const LOAD_OPTIONS: Names<LoadOptions> = { ...VERIFY_OPTIONS, adapter: true, cache: true, verify: true, verifyHashes: true };

/** Those of the options of a loading that a verification has, too. */
export function verifyOptions(options: LoadOptions): VerifyOptions {
  const { adapter: _, cache: __, verify: ___, verifyHashes: ____, ...others } = options;
  return others;
}

/** What was checked and found right. That a report exists means that nothing was wrong. */
export interface VerificationReport {
  readonly path: string;
  readonly kind: "bundle";
  readonly spaceId: string;
  readonly dimension: number;
  readonly files: number;
  readonly bytes: number;
  readonly name: string;
  readonly version: string;
  /** The id of the key the signature was checked with; null where no key was given. */
  readonly signedBy: string | null;
  /** Who the bundle says signed it. */
  readonly claimedKeyId: string | null;
  readonly golden: GoldenAgreement;
}

/**
 * Open the bundle in `source` for encoding.
 *
 * `publicKey`: where given, the bundle and the adapter release must be signed by its private half.
 * `signal` ends the loading with its reason.
 *
 * Throws ArtifactNotFoundError (the bundle or one of its files is not there), CorruptArtifactError (a
 * file is truncated, was changed or is not as described; names it), SpaceMismatchError (the adapter is
 * of another space), UnsupportedVersionError (written in a newer format version), SignatureError (a
 * key is given and the signature is absent or not made by it), MissingExtraError (the platform has no
 * WebCrypto, or onnxruntime cannot start on it) or InvalidInputError (`source` is no FileSource,
 * `onnxruntime` none).
 */
export async function load(source: FileSource, options: LoadOptions): Promise<Encoder> {
  checkRuntime(checkOptions(options, LOAD_OPTIONS).onnxruntime);
  const place = checkSource(source, "the bundle");
  return withCache(place, MANIFEST_FILE, options.cache, (files) => opened(files, options));
}

async function opened(source: FileSource, options: LoadOptions): Promise<Encoder> {
  const bundle = await Bundle.open(source, options);
  const encoder = await Encoder.ofBundle(bundle, options);
  try {
    throwIfAborted(options.signal);
    if (options.verify) {
      const golden = parseGolden(await bundle.read(GOLDEN_FILE));
      // The golden vectors are of the bundle's own adapter.
      if (options.adapter === undefined) await replay(encoder, golden, options.signal);
      else await verify(source, verifyOptions(options));
    }
  } catch (error) {
    await encoder.close();
    throw error;
  }
  return encoder;
}

/**
 * Check a bundle whole: the manifest, its signature where a key is given, the size and hash of every
 * file, the graph's inputs and output, and the golden texts (equal ids, cosine at least 0.999).
 *
 * Throws the first thing found wrong, as `load`.
 */
export async function verify(
  source: FileSource,
  options: VerifyOptions,
): Promise<VerificationReport> {
  checkRuntime(checkOptions(options, VERIFY_OPTIONS).onnxruntime);
  const bundle = await Bundle.open(checkSource(source, "the bundle"), options);
  const { manifest } = bundle;
  for (const name of manifest.files.keys()) await bundle.read(name);
  const { onnxruntime, sessionOptions } = options;
  const encoder = await Encoder.ofBundle(bundle, { onnxruntime, sessionOptions });
  try {
    const golden = parseGolden(await bundle.read(GOLDEN_FILE));
    return {
      path: source.name,
      kind: "bundle",
      spaceId: manifest.space.id,
      dimension: manifest.space.dimension,
      files: manifest.files.size,
      bytes: [...manifest.files.values()].reduce((sum, entry) => sum + entry.bytes, 0),
      name: manifest.name,
      version: manifest.encoderVersion,
      signedBy: bundle.signedBy,
      claimedKeyId: manifest.signatureKeyId,
      golden: await replay(encoder, golden, options.signal),
    };
  } finally {
    await encoder.close();
  }
}
