/**
 * A query encoder as files: a folder, a server's folder, a zip of it, or memory.
 *
 *     manifest.json                        what it is; the hash and size of every other file
 *     encoder.onnx                         ids -> sentence_embedding
 *     tokenizer.json | tokenizer.model     text -> ids
 *     golden.json                          texts with their ids and vectors, replayed by verify
 *     adapter.safetensors                  optional: values for the adapter's tensors
 *     signature                            optional: Ed25519 over the bytes of manifest.json
 *
 * Each file is checked on the very bytes that are then used, so nothing can change in between: with
 * a key, first the signature of the manifest's bytes, then what they say. Files the manifest does
 * not name are ignored and never read.
 */

import {
  ArtifactNotFoundError,
  CorruptArtifactError,
  InvalidInputError,
  SignatureError,
} from "../errors.js";
import type { FileSource, Progress, ReadOptions } from "../files/source.js";
import {
  MANIFEST_FILE,
  type Manifest,
  MOST_MANIFEST_BYTES,
  parseManifest,
} from "./manifest.js";
import { byCodePoint, repr } from "../python_text.js";
import { checkSignature, type Key, keyId, rawKey } from "./signature.js";
import { checkPresent, readSignature } from "./signature_file.js";
import { handedSha256 } from "../files/hashed.js";

/** How a bundle is opened and read. */
export interface BundleOptions {
  /** Where given, the bundle must be signed by its private half. */
  readonly publicKey?: Key | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** An opened bundle: its manifest is checked, its files are checked as they are read. */
export class Bundle {
  readonly source: FileSource;
  readonly manifest: Manifest;
  /** The id of the key the signature was checked with; null where no key was given. */
  readonly signedBy: string | null;
  readonly #options: BundleOptions;

  private constructor(
    source: FileSource,
    manifest: Manifest,
    signedBy: string | null,
    options: BundleOptions,
  ) {
    this.source = source;
    this.manifest = manifest;
    this.signedBy = signedBy;
    this.#options = options;
  }

  /**
   * The bundle in `source`.
   *
   * Throws ArtifactNotFoundError (no manifest there), CorruptArtifactError (it is not as described),
   * UnsupportedVersionError (of a newer format version) or SignatureError (a key is given and the
   * signature is absent or not made by it; or the manifest names a key and there is no signature).
   */
  static async open(source: FileSource, options: BundleOptions = {}): Promise<Bundle> {
    const read = readOptions(options);
    const data = await source.read(MANIFEST_FILE, { ...read, limit: MOST_MANIFEST_BYTES + 1 }).catch(
      (error: unknown) => {
        if (!(error instanceof ArtifactNotFoundError)) throw error;
        throw new ArtifactNotFoundError(
          `${source.name}: found no ${MANIFEST_FILE} in it, expected a bundle ` +
            "(pocketquery export writes one; an index has an index.json)",
          { cause: error },
        );
      },
    );
    const { publicKey } = options;
    const signedBy =
      publicKey === undefined ? null : await checkDetached(source, data, publicKey, read);
    const manifest = parseManifest(data);
    if (signedBy === null) await checkPresent(source, manifest.signatureKeyId, read);
    return new Bundle(source, manifest, signedBy, options);
  }

  /** Whether the manifest names the file. */
  has(name: string): boolean {
    return this.manifest.files.has(name);
  }

  /**
   * The bytes of the file `name`, checked against the manifest; `verifyHash: false` checks the size
   * alone.
   *
   * Throws InvalidInputError (the manifest names no such file), ArtifactNotFoundError (it is not
   * there) or CorruptArtifactError (its size or hash differs from the manifest's).
   */
  async read(name: string, { verifyHash = true } = {}): Promise<Uint8Array> {
    const entry = this.manifest.files.get(name);
    const place = this.source.name;
    if (entry === undefined) {
      const known = [...this.manifest.files.keys()].sort(byCodePoint).join(", ");
      throw new InvalidInputError(
        `${place}: the manifest names no file ${repr(name)}, only ${known}`,
      );
    }
    const { onProgress } = this.#options;
    const onBytes =
      onProgress && ((bytes: number) => onProgress({ file: name, bytes, size: entry.bytes }));
    const data = await this.source.read(name, {
      ...readOptions(this.#options),
      ...(onBytes && { onBytes }),
      limit: entry.bytes + 1,
    });
    if (data.byteLength !== entry.bytes) {
      const found = data.byteLength > entry.bytes ? "more" : data.byteLength;
      throw new CorruptArtifactError(
        `${place}: ${name} has ${found} bytes, the manifest says ${entry.bytes}; it is ` +
          "truncated or was changed. Fetch or export the bundle again",
      );
    }
    const hash = verifyHash ? await handedSha256(data) : entry.sha256;
    if (hash !== entry.sha256) {
      throw new CorruptArtifactError(
        `${place}: ${name} has SHA-256 ${hash}, the manifest says ` +
          `${entry.sha256}; it was changed. Fetch or export the bundle again`,
      );
    }
    return data;
  }
}

function readOptions(options: BundleOptions): ReadOptions {
  return options.signal === undefined ? {} : { signal: options.signal };
}

/** The id of `publicKey`, where `source` has its signature of `message`. Throws SignatureError. */
export async function checkDetached(
  source: FileSource,
  message: Uint8Array,
  publicKey: Key,
  options: ReadOptions = {},
  what = "manifest",
): Promise<string> {
  const raw = rawKey(publicKey);
  const id = await keyId(raw);
  const signature = await readSignature(source, options);
  if (signature === null) {
    throw new SignatureError(
      `${source.name}: found no signature, expected one by the key ${id}`,
    );
  }
  try {
    await checkSignature(message, signature, raw, what);
  } catch (error) {
    if (!(error instanceof SignatureError)) throw error;
    throw new SignatureError(`${source.name}: ${error.message}`, { cause: error });
  }
  return id;
}
