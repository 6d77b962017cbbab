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
} from "../errors.js";
import { checkPresent } from "../bundle/signature_file.js";
import { Fields } from "../fields.js";
import { handedSha256 } from "../files/hashed.js";
import type { FileSource, Progress, ReadOptions } from "../files/source.js";
import type { Key } from "../bundle/signature.js";
import { sha256 } from "../platform/hashing.js";
import type { Base } from "./deltas/base.js";
import type { DeltaManifest } from "./deltas/manifest.js";
import { repr } from "../python_text.js";
import { Analyzer } from "../words/analyzer.js";
import type { LoadProgram } from "../words/languages.js";
import { type Segment, StoredDocuments } from "./vectors/stored.js";
import { fileSize, parseVectors, rowBytes } from "./vectors/vectors.js";

export const INFO = "index.json";
const DATABASE = "documents.sqlite";
const JOURNAL = `${DATABASE}-journal`;
const FORMAT = "pocketquery-index";
const VERSION = 2;
const MOST_INFO = 1 << 16; // bytes; it has a few hundred
const MOST_LANGUAGE = 32; // characters of a language's name
const AUTO = "auto"; // before the first document, which says it
const MOST_DIMENSION = 1 << 16;
const JOURNAL_MAGIC = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
const GENERATION = /^(?:0|[1-9][0-9]{0,14})$/;
const VECTORS_NAME = /^vectors-(?:0|[1-9][0-9]{0,17})\.u8$/;

/** What is compared on opening: every byte with its SHA-256, or sizes and structure alone. */
export type Check = "hashes" | "sizes";

/** What a reading listens to, and tells. */
export interface Watched {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** An index as it was read. */
export interface Folder extends Base {
  /** The file of the vectors, for errors. */
  readonly vectorsFile: string;
}

interface Info {
  readonly spaceId: string;
  readonly dimension: number;
  readonly language: string;
  readonly generation: number;
  readonly signatureKeyId: string | null;
  /** Whether a writer began to change the index since, or may have. */
  readonly mayDiffer: boolean;
  readonly files: ReadonlyMap<string, { readonly sha256: string; readonly bytes: number }>;
}

/**
 * Read the index in `place`.
 *
 * @param load brings the stemmers
 * @param publicKey the file `signature` must be made by its private half: over `index.json`, or over
 *   `delta.json` where a delta was applied to the index
 * @throws SignatureError it is not; or `index.json` says it is signed and there is no signature
 * @throws ArtifactNotFoundError a file is missing
 * @throws CorruptArtifactError a file is truncated, was changed or is of another format
 * @throws UnsupportedVersionError a newer version of the format
 */
export async function readFolder(
  place: FileSource,
  check: Check,
  load: LoadProgram,
  publicKey?: Key,
  watched: Watched = {},
): Promise<Folder> {
  const source = watching(place, watched);
  const data = await readInfoBytes(source);
  // Imported where there is a key, so that a page without one does not load it; so are deltas and changes in index.ts.
  const signed = publicKey === undefined ? undefined : await import("./deltas/signed.js");
  const proof = await signed?.readProof(source, data, publicKey as Key, INFO);
  const info = await readInfo(source, data, publicKey, proof);
  const name = (file: string) => `${source.name}/${file}`;
  const depth = publicKey === undefined ? check : "hashes";
  let database = await source.read(DATABASE);
  if (!info.mayDiffer) database = await compared(info, DATABASE, database, source, depth);
  else if (!(await isRecorded(info, DATABASE, database))) await refuseJournal(source);
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
  const language = documents.meta("language");
  const isLater = documents.meta("generation") !== String(info.generation);
  if (language !== info.language && !(info.language === AUTO && isLater)) {
    throw new CorruptArtifactError(
      `${name(DATABASE)} is in the language ${repr(language.slice(0, 40))}, ${INFO} says ` +
        `${repr(info.language)}; expected the same. Files of two indexes were mixed, copy it anew`,
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
  const { spaceId, dimension, signatureKeyId } = info;
  const analyzer = new Analyzer(language === AUTO ? "english" : language, load);
  const folder = { name: source.name, spaceId, dimension, analyzer, signatureKeyId, documents, rows };
  if (proof) {
    const isAsApplied = documents.meta("generation") === String(info.generation) && !documents.deleted.length;
    signed?.checkContents(folder, proof, info.signatureKeyId !== null && isAsApplied);
  }
  return { ...folder, vectorsFile: name(vectorsName) };
}

/** `source`, each of whose readings ends with the signal and tells how far it is. */
function watching(source: FileSource, { signal, onProgress }: Watched): FileSource {
  const ends = signal ? { signal } : {};
  return {
    name: source.name,
    list: () => source.list(),
    size: (file) => source.size(file, ends),
    read: (file, options: ReadOptions = {}) => {
      const onBytes = (bytes: number, size?: number) => onProgress?.({ file, bytes, size: size ?? null });
      return source.read(file, { ...options, ...ends, onBytes });
    },
    readRange: (file, begin, end) => source.readRange(file, begin, end, ends),
  };
}

async function readInfoBytes(source: FileSource): Promise<Uint8Array> {
  return source.read(INFO, { limit: MOST_INFO + 1 }).catch((error: unknown) => {
    if (!(error instanceof ArtifactNotFoundError)) throw error;
    throw new ArtifactNotFoundError(
      `there is no index at ${source.name}: ${INFO} is missing; build one with: pocketquery index FOLDER --output INDEX`,
      { cause: error },
    );
  });
}

async function readInfo(
  source: FileSource,
  data: Uint8Array,
  publicKey: Key | undefined,
  proof: DeltaManifest | undefined,
): Promise<Info> {
  const isSigned = publicKey !== undefined && proof === undefined; // else its contents are
  const fields = Fields.ofJson(data, `${source.name}/${INFO}`, MOST_INFO);
  fields.choice("format", [FORMAT]);
  fields.checkVersion(VERSION, `build it again: pocketquery index --documents FOLDER --output ${source.name}`);
  const signatureKeyId = fields.textOrNull("signature_key_id");
  if (publicKey === undefined) await checkPresent(source, signatureKeyId);
  const [space, files] = [fields.child("space"), fields.child("files", 2)];
  const state = fields.choice("state", ["sealed", "writing"]);
  return {
    spaceId: space.text("id"),
    dimension: space.integer("dimension", 1, MOST_DIMENSION),
    language: fields.text("language", MOST_LANGUAGE),
    generation: fields.integer("generation", 0),
    signatureKeyId,
    mayDiffer: state !== "sealed" && !isSigned,
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

/** Whether `bytes` are what was recorded: then no commit is to be undone. */
async function isRecorded({ files }: Info, name: string, bytes: Uint8Array): Promise<boolean> {
  const record = files.get(name);
  return record?.bytes === bytes.length && record.sha256 === (await sha256(bytes));
}

/** A journal that counts belongs to a commit in which a writer was killed; only SQLite undoes it. */
async function refuseJournal(source: FileSource): Promise<void> {
  const begin = await source.read(JOURNAL, { limit: JOURNAL_MAGIC.length }).catch((error: unknown) => {
    if (error instanceof ArtifactNotFoundError) return new Uint8Array();
    throw error;
  });
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
  const recorded = bytes.length === record.bytes ? bytes : bytes.subarray(0, record.bytes);
  if (check === "sizes") return recorded;
  const found = await handedSha256(recorded);
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

