/**
 * The changes made on a device as bytes: records one after the other, each written whole or not.
 *
 *     length u32 | CRC-32 of the payload | CRC-32 of these 8 bytes | payload
 *     payload: length of the JSON u32 | JSON (UTF-8) | rows of vectors
 *
 * All numbers are little-endian. The first record says what the log is and of which space. Another
 * is `{"delete": [ids]}` or `{"add": [entries]}` with a row for each entry: a document, or, where
 * it was deleted since, `{"terms": [[term, count], ...], "length": words, "language": number}`; or `{"compact": true}`:
 * what the file's documents deleted before it left behind does not count. The second record deletes
 * nothing and carries a name at random, `{"delete": [], "log": name}`: one log is told from another of
 * the same length by how it begins.
 *
 * A program that is killed while it writes leaves part of its last record, which is dropped. What
 * is broken and has a whole record behind it is damage, and is refused; so is what does not begin
 * as a log of the space does: it may be another program's file.
 */
import {
  CorruptArtifactError,
  SpaceMismatchError,
  UnsupportedVersionError,
} from "../../errors.js";
import { concatenated, randomName } from "../../files/bytes.js";
import { decodeUtf8, encodeUtf8 } from "../../utf8.js";
import { breathe } from "../../platform/cancelling.js";
import type { Analyzer } from "../../words/analyzer.js";
import { type Added, analyzed } from "../added.js";
import { crc32 } from "../../platform/crc32.js";
import { checkDocument, isObject } from "../document.js";
import { rowBytes } from "../vectors/vectors.js";

const FORMAT = "pocketquery-changes";
const VERSION = 3;
const FRAME = 12;
const NUMBER = 4;
const LANGUAGES = 27 ** 3; // their numbers are below
const NO_LOG = `it does not begin with the format ${FORMAT}, so it may be another program's file`;

/** A change: ids that were deleted, documents that were added, or that the index was compacted. */
export type Change =
  | { readonly delete: readonly string[] }
  | { readonly add: readonly Added[] }
  | { readonly compact: true };

/** The space whose vectors a log holds. */
export interface Space {
  readonly spaceId: string;
  readonly dimension: number;
}

/** The bytes of a log with these changes. */
export async function encodeLog(space: Space, changes: readonly Change[]): Promise<Uint8Array> {
  return concatenated([encodeHead(space), encodeName(), ...(await encodeChanges(changes))]);
}

/** The bytes of the record that tells a log from every other. */
export function encodeName(): Uint8Array {
  return encodeRecord({ delete: [], log: randomName() }, []);
}

/** Whole records, one by one. */
export function recordsIn(bytes: Uint8Array): Uint8Array[] {
  const records: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + FRAME + viewOf(bytes).getUint32(at, true);
    records.push(bytes.subarray(at, end));
    at = end;
  }
  return records;
}

/** The bytes of more changes, each a record; the thread's other work goes on between. */
export async function encodeChanges(changes: readonly Change[], signal?: AbortSignal): Promise<Uint8Array[]> {
  const records: Uint8Array[] = [];
  for (const change of changes) {
    await breathe(signal);
    records.push(encodeChange(change));
  }
  return records;
}

/** The bytes of one more change. */
export function encodeChange(change: Change): Uint8Array {
  if (!("add" in change)) return encodeRecord(change, []);
  const add = change.add.map(
    ({ document, terms, length, language }) => document ?? { terms: [...terms], length, language },
  );
  return encodeRecord({ add }, change.add.map(({ vector }) => vector));
}

/**
 * The changes in a log.
 * @param analyzer of the index's language
 * @param file how an error calls it
 * @param from where to begin: after whole records that are known
 * @param signal ends the reading with its reason
 * @returns the changes, and how many bytes are whole records: what follows was cut off
 * @throws CorruptArtifactError damaged in its middle, or no log
 * @throws UnsupportedVersionError another version of the format
 * @throws SpaceMismatchError of another space
 */
export async function decodeLog(
  bytes: Uint8Array,
  space: Space,
  analyzer: Analyzer,
  file: string,
  from = 0,
  signal?: AbortSignal,
): Promise<{ changes: Change[]; whole: number }> {
  const changes: Change[] = [];
  let at = from;
  for (;;) {
    const payload = payloadAt(bytes, at);
    if (!payload) break;
    const { json, rows } = parsePayload(payload, file);
    if (at === 0) checkHead(json, space, file);
    else changes.push(await parseChange(json, rows, space, analyzer, file, signal));
    at += FRAME + payload.length;
  }
  const view = viewOf(bytes); // one for all: there are as many places as bytes
  for (let later = at + 1; later < bytes.length; later++) {
    if (payloadAt(bytes, later, view)) {
      throw damaged(file, `the record at byte ${at} is broken, and others follow`);
    }
  }
  if (at === 0 && !isCutHead(bytes, space)) throw damaged(file, NO_LOG);
  return { changes, whole: at };
}

function encodeHead({ spaceId, dimension }: Space): Uint8Array {
  return encodeRecord({ format: FORMAT, format_version: VERSION, space: { id: spaceId, dimension } }, []);
}

/** Whether `bytes` are the beginning of a log's first record, and behind it zeros, or nothing. */
function isCutHead(bytes: Uint8Array, space: Space): boolean {
  const head = encodeHead(space);
  const same = head.findIndex((byte, i) => byte !== bytes[i]);
  return bytes.subarray(same).every((byte) => byte === 0);
}

function encodeRecord(fields: object, rows: readonly Uint8Array[]): Uint8Array {
  const json = encodeUtf8(JSON.stringify(fields));
  const payload = concatenated([numbers(json.length), json, ...rows]);
  const begin = numbers(payload.length, crc32(payload));
  return concatenated([begin, numbers(crc32(begin)), payload]);
}

/** The payload of the record at `at`, where there is a whole one. */
function payloadAt(bytes: Uint8Array, at: number, view = viewOf(bytes)): Uint8Array | undefined {
  if (at + FRAME + NUMBER > bytes.length) return undefined;
  const end = at + FRAME + view.getUint32(at, true);
  if (end > bytes.length || end < at + FRAME + NUMBER) return undefined;
  if (view.getUint32(at + 8, true) !== crc32(bytes.subarray(at, at + 8))) return undefined;
  const payload = bytes.subarray(at + FRAME, end);
  return view.getUint32(at + 4, true) === crc32(payload) ? payload : undefined;
}

function parsePayload(payload: Uint8Array, file: string): { json: unknown; rows: Uint8Array } {
  const end = NUMBER + viewOf(payload).getUint32(0, true);
  if (end > payload.length) throw damaged(file, "a record's JSON is cut off");
  try {
    const json: unknown = JSON.parse(decodeUtf8(payload.subarray(NUMBER, end)));
    return { json, rows: payload.subarray(end) };
  } catch {
    throw damaged(file, "a record is no JSON");
  }
}

function checkHead(json: unknown, space: Space, file: string): void {
  const head = isObject(json) ? json : {};
  const found = isObject(head["space"]) ? head["space"] : {};
  const version = head["format_version"];
  if (head["format"] !== FORMAT || !Number.isInteger(version)) {
    throw damaged(file, NO_LOG);
  }
  if (version !== VERSION) {
    const isNewer = (version as number) > VERSION;
    throw new UnsupportedVersionError(
      `${file} is of format version ${String(version)}, this release reads ${isNewer ? "up to " : ""}${VERSION}; ` +
        (isNewer ? "update pocketquery" : "remove it and add the documents again"),
    );
  }
  if (found["id"] !== space.spaceId || found["dimension"] !== space.dimension) {
    const named = (id: unknown, dimension: unknown) => `${String(id)} (dimension ${String(dimension)})`;
    throw SpaceMismatchError.between(
      "the index",
      named(space.spaceId, space.dimension),
      `the changes in ${file}`,
      named(found["id"], found["dimension"]),
    );
  }
}

async function parseChange(
  json: unknown,
  rows: Uint8Array,
  space: Space,
  analyzer: Analyzer,
  file: string,
  signal: AbortSignal | undefined,
): Promise<Change> {
  const fields = isObject(json) ? json : {};
  const { delete: deleted, add } = fields;
  if (Array.isArray(deleted) && deleted.every((id) => typeof id === "string")) {
    return { delete: deleted };
  }
  if (fields["compact"] === true) return { compact: true };
  const stride = rowBytes(space.dimension);
  if (!Array.isArray(add) || add.length * stride !== rows.length) {
    throw damaged(file, "a record is neither an addition nor a deletion");
  }
  const added: Added[] = [];
  for (const [i, entry] of (add as unknown[]).entries()) {
    await breathe(signal);
    const vector = Uint8Array.from(rows.subarray(i * stride, (i + 1) * stride));
    added.push(await parseAdded(entry, vector, analyzer, file));
  }
  return { add: added };
}

async function parseAdded(entry: unknown, vector: Uint8Array, analyzer: Analyzer, file: string): Promise<Added> {
  if (isObject(entry) && Array.isArray(entry["terms"])) {
    const { terms, length, language = 0 } = entry as { terms: unknown[]; length: unknown; language?: unknown };
    if (terms.every(isCount) && isWhole(length) && isWhole(language, LANGUAGES)) {
      return { document: null, terms: new Map(terms), length, language, vector };
    }
  }
  try {
    return await analyzed(analyzer, checkDocument(entry, "an added document"), vector);
  } catch (error) {
    throw damaged(file, error instanceof Error ? error.message : String(error));
  }
}

function isWhole(value: unknown, below = Infinity): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < below;
}

function isCount(pair: unknown): pair is [string, number] {
  return (
    Array.isArray(pair) &&
    pair.length === 2 &&
    typeof pair[0] === "string" &&
    Number.isSafeInteger(pair[1]) &&
    (pair[1] as number) > 0
  );
}

function damaged(file: string, what: string): CorruptArtifactError {
  return new CorruptArtifactError(
    `${file} is damaged: ${what}; restore it from a copy, or remove it and add the documents again`,
  );
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function numbers(...values: number[]): Uint8Array {
  const bytes = new Uint8Array(NUMBER * values.length);
  const view = new DataView(bytes.buffer);
  for (const [i, value] of values.entries()) view.setUint32(NUMBER * i, value, true);
  return bytes;
}
