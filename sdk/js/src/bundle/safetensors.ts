/**
 * The safetensors format, read strictly.
 *
 * A file is: the header's length (8 bytes, little-endian), the header (JSON: name -> dtype, shape,
 * data_offsets; optionally `__metadata__`, text to text), then the tensors' bytes. Everything a
 * hostile file could get wrong is checked before a tensor is built: the header may not be longer than
 * the file, offsets must tile the data exactly, in any order but with no gap and no overlap, and each
 * span must be as long as its dtype and shape say.
 *
 * Source: https://github.com/huggingface/safetensors (README, section "Format").
 */

import { CorruptArtifactError } from "../errors.js";
import { isInteger, type Json, type JsonObject, parseJson, plain } from "../json.js";
import { byCodePoint, repr, shortened, show } from "../python_text.js";
import { decodeUtf8, encodeUtf8 } from "../utf8.js";

const ITEM_BYTES = {
  F64: 8,
  F32: 4,
  F16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U64: 8,
  U32: 4,
  U16: 2,
  U8: 1,
  BOOL: 1,
} as const;
const LENGTH_BYTES = 8;
const ALIGNMENT = 8;
const LARGEST_HEADER = 100_000_000; // the reference implementation's bound

export type Dtype = keyof typeof ITEM_BYTES;

/** One tensor: its bytes are little-endian and its own (aligned, not shared with the file). */
export interface RawTensor {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array<ArrayBuffer>;
}

interface Entry {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly begin: number;
  readonly end: number;
}

/** The tensors of `data` by name. Throws CorruptArtifactError, which calls the file `source`. */
export function parseSafetensors(data: Uint8Array, source: string): Map<string, RawTensor> {
  const [header, body] = split(data, source);
  const entries: Entry[] = [];
  for (const [name, spec] of header) {
    if (name !== "__metadata__") entries.push(entryOf(name, spec, source));
  }
  metadataOf(header, source);
  checkTiling(entries, body.length, source);
  const tensors = new Map<string, RawTensor>();
  for (const { name, dtype, shape, begin, end } of entries) {
    const bytes = Uint8Array.from(body.subarray(begin, end));
    if (dtype === "BOOL" && bytes.some((byte) => byte > 1)) {
      throw new CorruptArtifactError(
        `${source}: tensor ${repr(name)} holds bytes other than 0 and 1`,
      );
    }
    tensors.set(name, { dtype, shape, bytes });
  }
  return tensors;
}

/** The `__metadata__` of `data`; empty where there is none. Throws as parseSafetensors. */
export function parseMetadata(data: Uint8Array, source: string): Map<string, string> {
  return metadataOf(split(data, source)[0], source);
}

/**
 * `tensors` as one safetensors file; the same tensors give the same bytes, those of Python's side:
 * wider dtypes come first, then names in order.
 */
export function serializeSafetensors(
  tensors: ReadonlyMap<string, RawTensor>,
  metadata: ReadonlyMap<string, string> = new Map(),
): Uint8Array {
  const fields: string[] = [];
  if (metadata.size > 0) fields.push(`"__metadata__":${canonicalJson(metadata)}`);
  const ordered = [...tensors].sort(
    ([a, left], [b, right]) =>
      ITEM_BYTES[right.dtype] - ITEM_BYTES[left.dtype] || byCodePoint(a, b),
  );
  let position = 0;
  for (const [name, { dtype, shape, bytes }] of ordered) {
    const end = position + bytes.length;
    const spec = { dtype, shape, data_offsets: [position, end] };
    fields.push(`${JSON.stringify(name)}:${JSON.stringify(spec)}`);
    position = end;
  }
  const text = encodeUtf8(`{${fields.join(",")}}`);
  const padded = Math.ceil(text.length / ALIGNMENT) * ALIGNMENT;
  const file = new Uint8Array(LENGTH_BYTES + padded + position);
  new DataView(file.buffer).setBigUint64(0, BigInt(padded), true);
  file.fill(0x20, LENGTH_BYTES, LENGTH_BYTES + padded);
  file.set(text, LENGTH_BYTES);
  let at = LENGTH_BYTES + padded;
  for (const [, { bytes }] of ordered) {
    file.set(bytes, at);
    at += bytes.length;
  }
  return file;
}

/** Texts by name as JSON with sorted keys and no blanks. */
export function canonicalJson(texts: ReadonlyMap<string, string>): string {
  const sorted = [...texts].sort(([a], [b]) => byCodePoint(a, b));
  return `{${sorted.map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`).join(",")}}`;
}

function split(data: Uint8Array, source: string): [JsonObject, Uint8Array] {
  if (data.length < LENGTH_BYTES) {
    throw new CorruptArtifactError(
      `${source}: ${data.length} bytes found, at least ${LENGTH_BYTES} expected; ` +
        "the file is truncated",
    );
  }
  const length = new DataView(data.buffer, data.byteOffset, LENGTH_BYTES).getBigUint64(0, true);
  const there = data.length - LENGTH_BYTES;
  if (length > BigInt(Math.min(there, LARGEST_HEADER))) {
    throw new CorruptArtifactError(
      `${source}: the header claims ${length} bytes, ${there} are there; ` +
        "the file is truncated or not a safetensors file",
    );
  }
  const begin = LENGTH_BYTES + Number(length);
  return [headerOf(data.subarray(LENGTH_BYTES, begin), source), data.subarray(begin)];
}

function headerOf(bytes: Uint8Array, source: string): JsonObject {
  let header: Json;
  try {
    header = parseJson(decodeUtf8(bytes));
  } catch (error) {
    throw new CorruptArtifactError(
      `${source}: the header is not valid JSON: ${(error as Error).message}`,
    );
  }
  if (!(header instanceof Map)) {
    throw new CorruptArtifactError(`${source}: the header is not a JSON object`);
  }
  return header;
}

function metadataOf(header: JsonObject, source: string): Map<string, string> {
  const found = header.get("__metadata__") ?? new Map<string, Json>();
  if (!(found instanceof Map) || [...found.values()].some((value) => typeof value !== "string")) {
    throw new CorruptArtifactError(
      `${source}: __metadata__ must map text to text, found ${written(found)}`,
    );
  }
  return found as Map<string, string>;
}

function entryOf(name: string, spec: Json, source: string): Entry {
  const where = `${source}: tensor ${repr(name)}`;
  const keys = spec instanceof Map ? [...spec.keys()].sort().join() : "";
  if (!(spec instanceof Map) || keys !== "data_offsets,dtype,shape") {
    throw new CorruptArtifactError(
      `${where}: expected exactly dtype, shape and data_offsets, found ${written(spec)}`,
    );
  }
  const found = spec.get("dtype");
  if (typeof found !== "string" || !Object.hasOwn(ITEM_BYTES, found)) {
    const known = Object.keys(ITEM_BYTES).join(", ");
    const shown = typeof found === "string" ? shortened(repr(found)) : written(found ?? null);
    throw new CorruptArtifactError(`${where}: dtype ${shown}, expected one of ${known}`);
  }
  const dtype = found as Dtype;
  const shape = naturals(spec, "shape", where);
  const offsets = naturals(spec, "data_offsets", where);
  const [begin, end] = offsets;
  if (begin === undefined || end === undefined || offsets.length !== 2) {
    throw new CorruptArtifactError(
      `${where}: data_offsets (${shortened(offsets.join(", "))}), expected [begin, end]`,
    );
  }
  const wanted = shape.reduce((product, size) => product * size, ITEM_BYTES[dtype]);
  if (end - begin !== wanted) {
    throw new CorruptArtifactError(
      `${where}: data_offsets span ${end - begin} bytes, ` +
        `dtype and shape ${shortened(show(shape))} need ${wanted}`,
    );
  }
  return { name, dtype, shape, begin, end };
}

function naturals(spec: JsonObject, field: string, where: string): number[] {
  const value = spec.get(field) ?? null;
  if (
    !Array.isArray(value) ||
    !value.every((item, i) => isInteger(value, i) && (item as number) >= 0)
  ) {
    throw new CorruptArtifactError(
      `${where}: ${field} ${written(value)}, expected a list of integers not below 0`,
    );
  }
  return value as number[];
}

function checkTiling(entries: readonly Entry[], size: number, source: string): void {
  let position = 0;
  for (const entry of [...entries].sort((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (entry.begin !== position) {
      throw new CorruptArtifactError(
        `${source}: tensor ${repr(entry.name)} begins at ${entry.begin}, expected ${position}; ` +
          "tensors may neither overlap nor leave gaps",
      );
    }
    position = entry.end;
  }
  if (position !== size) {
    throw new CorruptArtifactError(
      `${source}: the tensors need ${position} bytes, ${size} are there; ` +
        "the file is truncated or was appended to",
    );
  }
}

function written(value: Json): string {
  return shortened(JSON.stringify(plain(value)));
}
