/**
 * An adapter release: the small file that makes a bundle's encoder a newer one, and proves itself.
 *
 * One safetensors file of at most 100 KB: the adapter's tensors in float16, and metadata that says
 * which version it is, of which parent, for which space and which `encoder.onnx`, with digests:
 *
 *     tensors_sha256   of the tensors: names, shapes and bytes
 *     content_sha256   of the metadata, `tensors_sha256` and the signature among it
 *     signature        optional: Ed25519 over the metadata without signature and content_sha256
 *
 * So a changed byte is noticed without a key, and a forger is noticed with one. There is one way to
 * write a release, byte for byte; a file that says the same in other bytes is refused too.
 */

import { type AdapterTensors, widened } from "./adapter_tensors.js";
import {
  CorruptArtifactError,
  SignatureError,
  SpaceMismatchError,
  UnsupportedVersionError,
} from "../errors.js";
import { Fields } from "../fields.js";
import { ENCODER_FILE, type Manifest } from "./manifest.js";
import { repr, shortened, show } from "../python_text.js";
import {
  canonicalJson,
  parseMetadata,
  parseSafetensors,
  type RawTensor,
  serializeSafetensors,
} from "./safetensors.js";
import { checkSignature, type Key, keyId, rawKey } from "./signature.js";
import { sha256 } from "../platform/hashing.js";
import { encodeUtf8, isWellFormed } from "../utf8.js";

export const ADAPTER_FORMAT = "pocketquery-adapter";
export const ADAPTER_VERSION = 1;
/** Bytes; what a device downloads a round. */
export const LARGEST_RELEASE = 100_000;

const UNSIGNED = ["signature", "content_sha256"];
const MOST_CHARACTERS = 1024; // of a version, an id
const MOST_DIGITS = 20;

/** A release that was read and is sound in itself. */
export interface AdapterRelease {
  /** Of the encoder that results, within its space. */
  readonly version: string;
  readonly parentVersion: string | null;
  readonly spaceId: string;
  /** Of the `encoder.onnx` it belongs to, hexadecimal. */
  readonly encoderSha256: string;
  /** float32, by name; their values are float16's. */
  readonly tensors: AdapterTensors;
  readonly tensorsSha256: string;
  /** Which key it says it is signed by. */
  readonly signatureKeyId: string | null;
  /** The id of the key its signature was checked with; null where no key was given. */
  readonly signedBy: string | null;
  /** Of the whole file. */
  readonly sha256: string;
}

/**
 * The release in `data`, where it is sound and made for the bundle of `manifest`.
 *
 * Throws CorruptArtifactError (it was changed, is no release, or is for another `encoder.onnx`),
 * UnsupportedVersionError, SpaceMismatchError, or SignatureError (a key is given and the signature
 * is absent or not made by it).
 */
export async function readAdapter(
  data: Uint8Array,
  manifest: Manifest,
  publicKey?: Key,
  name = "the adapter",
): Promise<AdapterRelease> {
  const signedBy = publicKey === undefined ? null : await checkSigned(data, publicKey, name);
  const release = { ...(await parseAdapter(data, name)), signedBy };
  checkFits(release, manifest, name);
  return release;
}

/** The release in `data`, where it is sound in itself; of any bundle, by whomever signed. */
export async function parseAdapter(data: Uint8Array, name = "the adapter"): Promise<AdapterRelease> {
  const metadata = metadataOf(data, name);
  const fields = new Fields(metadata, name);
  checkFormat(fields, name);
  const halves = parseSafetensors(data, name);
  await checkDigests(data, halves, metadata, name);
  return {
    version: fields.text("encoder_version", MOST_CHARACTERS),
    parentVersion: fields.textOrNull("parent_version", MOST_CHARACTERS),
    spaceId: fields.text("space_id", MOST_CHARACTERS),
    encoderSha256: fields.text("encoder_sha256", MOST_CHARACTERS),
    tensors: widened(halves, name),
    tensorsSha256: fields.text("tensors_sha256"),
    signatureKeyId: fields.textOrNull("signature_key_id", MOST_CHARACTERS),
    signedBy: null,
    sha256: await sha256(data),
  };
}

function metadataOf(data: Uint8Array, name: string): Map<string, string> {
  if (data.length > LARGEST_RELEASE) {
    throw new CorruptArtifactError(
      `${name}: more than ${LARGEST_RELEASE} bytes, which no adapter release has`,
    );
  }
  return parseMetadata(data, name);
}

function canonical(metadata: ReadonlyMap<string, string>, ...without: string[]): Uint8Array {
  return encodeUtf8(canonicalJson(new Map([...metadata].filter(([key]) => !without.includes(key)))));
}

function checkFormat(fields: Fields, name: string): void {
  const found = fields.text("format", MOST_CHARACTERS);
  if (found !== ADAPTER_FORMAT) {
    throw new CorruptArtifactError(
      `${name}: found ${repr(found)}, expected an adapter release (${repr(ADAPTER_FORMAT)})`,
    );
  }
  const version = fields.text("format_version", MOST_DIGITS);
  if (version === String(ADAPTER_VERSION)) return;
  if (/^[0-9]+$/.test(version) && Number(version) > ADAPTER_VERSION) {
    throw new UnsupportedVersionError(
      `${name}: format_version is ${version}, this release reads up to ${ADAPTER_VERSION}; ` +
        "update pocketquery",
    );
  }
  throw new CorruptArtifactError(
    `${name}: format_version is ${repr(version)}, expected ${repr(String(ADAPTER_VERSION))}`,
  );
}

async function checkDigests(
  data: Uint8Array,
  halves: ReadonlyMap<string, RawTensor>,
  metadata: ReadonlyMap<string, string>,
  name: string,
): Promise<void> {
  const texts = [...halves.keys(), ...metadata.keys(), ...metadata.values()];
  if (!texts.every(isWellFormed)) {
    throw new CorruptArtifactError(`${name}: a text in it is no text: a lone surrogate`);
  }
  const found = {
    content_sha256: await sha256(canonical(metadata, "content_sha256")),
    tensors_sha256: await sha256(serializeSafetensors(halves)),
  };
  for (const [digest, value] of Object.entries(found)) {
    const said = metadata.get(digest);
    if (said !== value) {
      throw new CorruptArtifactError(
        `${name}: ${digest} is ${repr(shortened(said ?? "None"))}, its content gives ` +
          `${repr(value)}; it was changed. Fetch it again`,
      );
    }
  }
  const written = serializeSafetensors(halves, metadata);
  if (written.length !== data.length || written.some((byte, i) => byte !== data[i])) {
    throw new CorruptArtifactError(
      `${name}: not in the bytes a release is written in; it was changed. Fetch it again`,
    );
  }
}

/** The id of the key, where the metadata, which holds the tensors' digest, is signed by it. */
async function checkSigned(data: Uint8Array, publicKey: Key, name: string): Promise<string> {
  const metadata = metadataOf(data, name);
  const raw = rawKey(publicKey);
  const expected = await keyId(raw);
  const signature = metadata.get("signature");
  if (signature === undefined) {
    throw new SignatureError(
      `${name}: the adapter is not signed, expected a signature by the key ${expected}`,
    );
  }
  try {
    const pairs = /^(?:[0-9a-fA-F]{2})*$/.test(signature) ? (signature.match(/../g) ?? []) : [];
    const bytes = Uint8Array.from(pairs, (pair) => Number.parseInt(pair, 16));
    await checkSignature(canonical(metadata, ...UNSIGNED), bytes, raw);
  } catch (error) {
    if (!(error instanceof SignatureError)) throw error;
    const named = metadata.get("signature_key_id");
    throw new SignatureError(
      `${name}: the adapter's signature was not made by the key ${expected} (it ` +
        `names ${shortened(show(named))}); it was changed, or comes from somebody ` +
        "else. Fetch it from its publisher",
      { cause: error },
    );
  }
  return expected;
}

/** Throws SpaceMismatchError or CorruptArtifactError where a release is of another bundle. */
export function checkFits(release: AdapterRelease, manifest: Manifest, name: string): void {
  const bundle = `the bundle ${repr(manifest.name)}`;
  if (release.spaceId !== manifest.space.id) {
    throw new SpaceMismatchError(
      `${name}: the adapter is of space ${release.spaceId}, ${bundle} lives in space ` +
        `${manifest.space.id}; fetch the adapter of this bundle`,
    );
  }
  const expected = manifest.files.get(ENCODER_FILE)?.sha256;
  if (release.encoderSha256 !== expected) {
    throw new CorruptArtifactError(
      `${name}: the adapter is for the ${ENCODER_FILE} with SHA-256 ` +
        `${release.encoderSha256}, ${bundle} has ${expected}; fetch the adapter of this bundle`,
    );
  }
}
