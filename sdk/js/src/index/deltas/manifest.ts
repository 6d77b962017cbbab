/**
 * `delta.json`: from which contents of an index to which others a delta leads. Python's
 * `delta_manifest.py`.
 *
 * It describes a delta, and it lies beside an index that a signed one was applied to.
 */
import { CorruptArtifactError, SpaceMismatchError } from "../../errors.js";
import { Fields } from "../../fields.js";
import { repr } from "../../python_text.js";

export const DELTA_FILE = "delta.json";
export const MOST_DELTA_BYTES = 1 << 16; // of delta.json, which has a thousand
const PARTS = ["order", "removed", "documents", "vectors"] as const;
const MOST_PART = 2 ** 30; // bytes, unpacked; a delta of more is no smaller than its index
const MOST_DOCUMENTS = 2 ** 32 - 1;
const MOST_DIMENSION = 1 << 16;
const FORMAT = "pocketquery-delta";
const VERSION = 2;

/** A part of a delta. */
export type PartName = (typeof PARTS)[number];

/** What an index holds: its hash, and how many documents. */
export interface ContentsRecord {
  readonly sha256: string;
  readonly documents: number;
}

/** A part of a delta: hash and size as it lies in the file, and its size unpacked. */
export interface PartRecord {
  readonly sha256: string;
  readonly bytes: number;
  readonly unpackedBytes: number;
}

/** What `delta.json` says. */
export interface DeltaManifest {
  readonly spaceId: string;
  readonly dimension: number;
  /** What the delta was made from. */
  readonly old: ContentsRecord;
  /** What it leads to. */
  readonly new: ContentsRecord;
  /** How many documents go, come, and change under their id. */
  readonly removed: number;
  readonly added: number;
  readonly changed: number;
  readonly parts: Readonly<Record<PartName, PartRecord>>;
  /** Of the key it says it is signed by; null where it is not signed. */
  readonly signatureKeyId: string | null;
}

/**
 * What `data`, the bytes of a `delta.json` that errors call `source`, say.
 *
 * @throws CorruptArtifactError not a delta's
 * @throws UnsupportedVersionError of another version
 */
export function parseDeltaManifest(data: Uint8Array, source: string): DeltaManifest {
  const fields = Fields.ofJson(data, source, MOST_DELTA_BYTES);
  const format = fields.text("format");
  if (format !== FORMAT) {
    throw new CorruptArtifactError(
      `${source} has the format ${repr(format.slice(0, 40))}, expected ${repr(FORMAT)}; is it ` +
        "another artefact?",
    );
  }
  fields.checkVersion(VERSION, "make a new one of two indexes of this release: pocketquery delta");
  const [space, parts] = [fields.child("space"), fields.child("parts")];
  const manifest: DeltaManifest = {
    spaceId: space.text("id"),
    dimension: space.integer("dimension", 1, MOST_DIMENSION),
    old: contentsRecord(fields.child("from"), source),
    new: contentsRecord(fields.child("to"), source),
    removed: fields.integer("removed", 0, MOST_DOCUMENTS),
    added: fields.integer("added", 0, MOST_DOCUMENTS),
    changed: fields.integer("changed", 0, MOST_DOCUMENTS),
    parts: Object.fromEntries(
      PARTS.map((name) => [name, partRecord(parts.child(name), source)]),
    ) as Record<PartName, PartRecord>,
    signatureKeyId: fields.textOrNull("signature_key_id"),
  };
  const { old, new: after, removed, added } = manifest;
  if (old.documents - removed + added !== after.documents) {
    throw new CorruptArtifactError(
      `${source}: ${old.documents} documents less ${removed} and ${added} more are not ` +
        `${after.documents}; fetch the delta anew`,
    );
  }
  return manifest;
}

/** @throws SpaceMismatchError a delta is of another space than the index, or of another dimension */
export function checkDeltaSpace(
  index: string,
  space: { readonly spaceId: string; readonly dimension: number },
  manifest: DeltaManifest,
): void {
  const { spaceId, dimension } = space;
  if (spaceId === manifest.spaceId && dimension === manifest.dimension) return;
  throw SpaceMismatchError.between(
    `the index ${index}`,
    `${spaceId} of ${dimension} dimensions`,
    "the delta",
    `${manifest.spaceId} of ${manifest.dimension} dimensions`,
  );
}

function contentsRecord(fields: Fields, source: string): ContentsRecord {
  return {
    sha256: hash(fields.text("contents_sha256"), source),
    documents: fields.integer("documents", 0, MOST_DOCUMENTS),
  };
}

function partRecord(fields: Fields, source: string): PartRecord {
  return {
    sha256: hash(fields.text("sha256"), source),
    bytes: fields.integer("bytes", 0, MOST_PART),
    unpackedBytes: fields.integer("unpacked_bytes", 0, MOST_PART),
  };
}

function hash(text: string, source: string): string {
  if (/^[0-9a-f]{64}$/.test(text)) return text;
  throw new CorruptArtifactError(
    `${source}: found ${repr(text.slice(0, 80))} for a SHA-256, expected 64 hexadecimal digits; ` +
      "fetch the delta anew",
  );
}
