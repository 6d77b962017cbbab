/**
 * The index's folder: `index.json`, the database and the vectors, read and checked.
 *
 * Python maps a large index and hashes it only in `verify`. Here every byte is read on opening
 * anyway, so it is compared with what was recorded, unless the caller asks for sizes only.
 */
import {
  ArtifactNotFoundError,
  CorruptArtifactError,
  SpaceMismatchError,
  UnsupportedVersionError,
} from "../errors.js";
import { checkDetached, checkPresent } from "../bundle/bundle.js";
import { Fields } from "../fields.js";
import type { FileSource } from "../files/source.js";
import { type Key, sha256 } from "../bundle/signature.js";
import { type Segment, StoredDocuments } from "./vectors/stored.js";
import { fileSize, parseVectors, rowBytes } from "./vectors/vectors.js";

const INFO = "index.json";
const DATABASE = "documents.sqlite";
const JOURNAL = `${DATABASE}-journal`;
const FORMAT = "pocketquery-index";
const VERSION = 1;
const MOST_INFO = 1 << 16; // bytes; it has a few hundred
const MOST_DIMENSION = 1 << 16;
const JOURNAL_MAGIC = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
const GENERATION = /^(?:0|[1-9][0-9]{0,14})$/;
const VECTORS_NAME = /^vectors-(?:0|[1-9][0-9]{0,17})\.u8$/;

/** What is compared on opening: every byte with its SHA-256, or sizes and structure alone. */
export type Check = "hashes" | "sizes";

/** An index as it was read. */
export interface Folder {
  readonly spaceId: string;
  readonly dimension: number;
  readonly documents: StoredDocuments;
  /** The file of the vectors, for errors, and its rows, uint8 (n, d + 4). */
  readonly vectorsFile: string;
  readonly rows: Uint8Array;
}

interface Info {
  readonly spaceId: string;
  readonly dimension: number;
  readonly generation: number;
  /** Whether a writer began to change the index since, or may have. */
  readonly mayDiffer: boolean;
  readonly files: ReadonlyMap<string, { readonly sha256: string; readonly bytes: number }>;
}

/**
 * Read the index in `source`.
 *
 * @param publicKey the file `signature` must be made over `index.json` by its private half
 * @throws SignatureError it is not; or `index.json` says it is signed and there is no signature
 * @throws ArtifactNotFoundError a file is missing
 * @throws CorruptArtifactError a file is truncated, was changed or is of another format
 * @throws UnsupportedVersionError a newer version of the format
 */
export async function readFolder(
  source: FileSource,
  check: Check,
  publicKey?: Key,
): Promise<Folder> {
  const info = await readInfo(source, publicKey);
  await refuseJournal(source);
  const name = (file: string) => `${source.name}/${file}`;
  const depth = publicKey === undefined ? check : "hashes";
  let database = await source.read(DATABASE);
  if (!info.mayDiffer) database = await compared(info, DATABASE, database, source, depth);
  const documents = new StoredDocuments(database, name(DATABASE));
  const vectorsName = documents.meta("vectors");
  const space = `${info.dimension} ${info.spaceId}`;
  const found = documents.meta("space");
  if (found !== space) {
    const [dimension = "", id = ""] = /^(\d+) (.*)$/s.exec(found)?.slice(1) ?? ["", found];
    const named = (its: string, size: string | number) => `${its} (dimension ${size})`;
    throw SpaceMismatchError.between(
      name(DATABASE), named(id, dimension), name(INFO), named(info.spaceId, info.dimension),
    );
  }
  if (!VECTORS_NAME.test(vectorsName)) {
    throw new CorruptArtifactError(
      `${name(DATABASE)} names the vectors ${vectorsName}, expected vectors-N.u8; files of two ` +
        "indexes were mixed, copy it anew",
    );
  }
  const vectors = await source.read(vectorsName, {
    limit: fileSize(info.dimension, documents.count),
  });
  const rows = parseVectors(vectors, info.dimension, documents.count, name(vectorsName));
  if (isAsSealed(info, documents.meta("generation"), name(DATABASE))) {
    if (info.mayDiffer) await compared(info, DATABASE, database, source, depth);
    await compared(info, vectorsName, vectors, source, depth);
  } else if (depth === "hashes") {
    await compareSegments(documents.segments, rows, rowBytes(info.dimension), name(vectorsName));
  }
  const { spaceId, dimension } = info;
  return { spaceId, dimension, documents, vectorsFile: name(vectorsName), rows };
}

async function readInfo(source: FileSource, publicKey: Key | undefined): Promise<Info> {
  if ((await source.size(INFO)) === null) {
    throw new ArtifactNotFoundError(
      `there is no index at ${source.name}: ${INFO} is missing; build one with: pocketquery index`,
    );
  }
  const data = await source.read(INFO, { limit: MOST_INFO + 1 });
  if (publicKey !== undefined) await checkDetached(source, data, publicKey, {}, INFO);
  const fields = Fields.ofJson(data, `${source.name}/${INFO}`, MOST_INFO);
  fields.choice("format", [FORMAT]);
  const version = fields.integer("format_version", 1);
  if (version > VERSION) {
    throw new UnsupportedVersionError(
      `${source.name}/${INFO} is of format version ${version}, this release reads up to ` +
        `${VERSION}; upgrade pocketquery`,
    );
  }
  if (publicKey === undefined) await checkPresent(source, fields.textOrNull("signature_key_id"));
  const [space, files] = [fields.child("space"), fields.child("files", 2)];
  const state = fields.names().includes("state") ? fields.choice("state", ["sealed", "writing"]) : "";
  return {
    spaceId: space.text("id"),
    dimension: space.integer("dimension", 1, MOST_DIMENSION),
    generation: fields.integer("generation", 0),
    mayDiffer: state !== "sealed" && publicKey === undefined,
    files: new Map(
      files.names().map((name) => {
        const record = files.child(name);
        return [name, { sha256: record.text("sha256"), bytes: record.integer("bytes", 0) }];
      }),
    ),
  };
}

/** False where a writer was killed after its last commit and before it sealed the index again. */
function isAsSealed(info: Info, generation: string, file: string): boolean {
  if (generation === String(info.generation)) return true;
  const isLater = GENERATION.test(generation) && Number(generation) > info.generation;
  if (isLater && info.mayDiffer) return false;
  throw new CorruptArtifactError(
    `${file} is at generation ${generation}, but ${INFO} was sealed at ${info.generation} and not ` +
      "written since; files of two states were mixed, copy the index anew or build it again",
  );
}

/** A journal that counts belongs to a commit in which a writer was killed; only SQLite undoes it. */
async function refuseJournal(source: FileSource): Promise<void> {
  if (!(await source.size(JOURNAL))) return;
  const begin = await source.read(JOURNAL, { limit: JOURNAL_MAGIC.length });
  if (JOURNAL_MAGIC.every((byte, i) => begin[i] === byte)) {
    throw new CorruptArtifactError(
      `${source.name}/${JOURNAL} is there: a writer was killed while it committed. Open the index ` +
        "once with pocketquery in Python, which undoes that, or copy the index anew",
    );
  }
}

/** `bytes` as far as they were recorded, where they are what was recorded. */
async function compared(
  info: Info,
  name: string,
  bytes: Uint8Array,
  source: FileSource,
  check: Check,
): Promise<Uint8Array> {
  const [file, record] = [`${source.name}/${name}`, info.files.get(name)];
  if (!record) throw new CorruptArtifactError(`${INFO} says nothing of ${file}; copy it anew`);
  // More is no damage: rows that a writer was adding when it was killed.
  if (bytes.length < record.bytes) {
    throw new CorruptArtifactError(
      `${file} has ${bytes.length} bytes, expected ${record.bytes}: it is truncated; ` +
        "copy the index anew or build it again",
    );
  }
  const recorded = bytes.subarray(0, record.bytes);
  if (check === "sizes") return recorded;
  const found = await sha256(recorded);
  if (found !== record.sha256) {
    throw new CorruptArtifactError(
      `${file} was changed after it was written: its SHA-256 is ${found}, expected ` +
        `${record.sha256}; copy the index anew or build it again`,
    );
  }
  return recorded;
}

async function compareSegments(
  segments: readonly Segment[],
  rows: Uint8Array,
  stride: number,
  file: string,
): Promise<void> {
  for (const { firstRow, count, vectorsSha256 } of segments) {
    const end = firstRow + count;
    if ((await sha256(rows.subarray(firstRow * stride, end * stride))) !== vectorsSha256) {
      throw new CorruptArtifactError(
        `${file} was changed after it was written: rows ${firstRow} to ${end - 1} have another ` +
          "SHA-256 than recorded; copy the index anew",
      );
    }
  }
}

