/** Writing an adapter release: byte for byte what Python's `pack_adapter` writes, unsigned. */

import { InvalidInputError } from "../errors.js";
import { repr, show } from "../python_text.js";
import { encodeUtf8 } from "../utf8.js";
import { ADAPTER_FORMAT, ADAPTER_VERSION, LARGEST_RELEASE } from "./adapter.js";
import type { AdapterTensors } from "./adapter_tensors.js";
import { narrow } from "./float16.js";
import { ENCODER_FILE, type Manifest } from "./manifest.js";
import { canonicalJson, type RawTensor, serializeSafetensors } from "./safetensors.js";
import { sha256 } from "../platform/hashing.js";

/** What a release says of itself. */
export interface PackOptions {
  /** Of the bundle it is for. */
  readonly manifest: Manifest;
  /** Of the encoder that results, not empty. */
  readonly version: string;
  /** Of the encoder it was trained from. */
  readonly parentVersion?: string | null;
}

/**
 * The bytes of a release; the tensors are rounded to float16. A device signs nothing.
 *
 * Throws InvalidInputError: no tensors; NaN, infinity or what float16 cannot hold; an empty version;
 * above 100 KB.
 */
export async function packAdapter(
  tensors: AdapterTensors,
  { manifest, version, parentVersion = null }: PackOptions,
): Promise<Uint8Array> {
  const halves = new Map<string, RawTensor>();
  for (const [name, { shape, data }] of tensors) {
    const half = narrow(data);
    if (half.some((bits) => (bits & 0x7c00) === 0x7c00)) {
      throw new InvalidInputError(
        `adapter tensor ${repr(name)} is NaN, infinity or what float16 cannot hold; expected ` +
          "finite float16 or float32",
      );
    }
    halves.set(name, { dtype: "F16", shape, bytes: new Uint8Array(half.buffer as ArrayBuffer) });
  }
  if (halves.size === 0 || version === "" || parentVersion === "") {
    throw new InvalidInputError(
      `${halves.size} adapter tensors, version ${repr(version)}, parent ${show(parentVersion)}: ` +
        "expected at least one tensor and versions that are not empty",
    );
  }
  const metadata = new Map([
    ["format", ADAPTER_FORMAT],
    ["format_version", String(ADAPTER_VERSION)],
    ["encoder_version", version],
    ["space_id", manifest.space.id],
    ["encoder_sha256", manifest.files.get(ENCODER_FILE)?.sha256 ?? ""],
    ["tensors_sha256", await sha256(serializeSafetensors(halves))],
  ]);
  if (parentVersion !== null) metadata.set("parent_version", parentVersion);
  metadata.set("content_sha256", await sha256(encodeUtf8(canonicalJson(metadata))));
  const data = serializeSafetensors(halves, metadata);
  if (data.length > LARGEST_RELEASE) {
    throw new InvalidInputError(
      `the adapter release has ${data.length} bytes, at most ${LARGEST_RELEASE} may travel; ` +
        "export the bundle with a lower adapter rank",
    );
  }
  return data;
}
