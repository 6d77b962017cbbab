/**
 * Reading a sentencepiece model: the fields of `sentencepiece_model.proto` that decide how a text is
 * cut. What this package would not follow to the letter is refused, and what Python refuses because
 * the sentencepiece library could not be trusted with it.
 */

import { CorruptArtifactError } from "../errors.js";
import { type Field, fieldsOf, textOf } from "../bundle/protobuf.js";
import { copied } from "../files/bytes.js";
import { checkCharsmap } from "./sentencepiece_charsmap.js";

/** What a piece is, by its number in the file. */
export const NORMAL = 1;
export const UNKNOWN = 2;
export const CONTROL = 3;
export const USER_DEFINED = 4;
export const UNUSED = 5;
export const BYTE = 6;

export interface Piece {
  readonly text: string;
  /** Log probability (unigram) or rank (BPE), float32. */
  readonly score: number;
  readonly type: number;
}

/** How a text is prepared before it is cut. */
export interface NormalizerSpec {
  readonly charsmap: Uint8Array;
  readonly addDummyPrefix: boolean;
  readonly removeExtraWhitespaces: boolean;
  readonly escapeWhitespaces: boolean;
  readonly whitespaceAsSuffix: boolean;
}

export interface SentencePieceFile {
  readonly pieces: readonly Piece[];
  readonly kind: "unigram" | "bpe";
  readonly byteFallback: boolean;
  readonly unknownPiece: string;
  readonly beginPiece: string;
  readonly endPiece: string;
  readonly normalizer: NormalizerSpec;
}

const MOST_PIECES = 1 << 20;
const LONGEST_PIECE = 512; // bytes; trainers stop at 64, and the search tries every length
const MOST_NESTED = 64; // user-defined pieces that begin with one another: the library's room for them
const KINDS: Readonly<Record<number, string>> = { 1: "unigram", 2: "bpe", 3: "word", 4: "char" };

/** Parse the bytes of a `tokenizer.model`. Throws CorruptArtifactError. */
export function readSentencePieceFile(data: Uint8Array): SentencePieceFile {
  const refuse = (reason: string): CorruptArtifactError =>
    new CorruptArtifactError(
      `tokenizer.model: found ${data.length} bytes that are not a sentencepiece model ` +
        `(${reason}); use the file the encoder was trained with, unchanged`,
    );
  if (data.length === 0) throw refuse("no bytes");
  let file: SentencePieceFile;
  try {
    file = parsed(data);
  } catch (error) {
    throw refuse((error as Error).message);
  }
  const reason = flaw(file);
  if (reason !== null) throw refuse(reason);
  return file;
}

function parsed(data: Uint8Array): SentencePieceFile {
  const pieces: Piece[] = [];
  const trainer = { kind: 1, suffix: false, byteFallback: false };
  const names = { unknown: "", begin: "", end: "" };
  const spec = { charsmap: new Uint8Array(), dummy: true, extra: true, escape: true };
  for (const field of fieldsOf(data)) {
    if (field.wire !== "bytes") continue;
    if (field.number === 1) pieces.push(piece(data, field));
    if (field.number === 2) readTrainer(data, field, trainer, names);
    if (field.number === 3) readNormalizer(data, field, spec);
    if (pieces.length > MOST_PIECES) throw new RangeError(`over ${MOST_PIECES} pieces`);
  }
  if (spec.charsmap.length > 0) checkCharsmap(spec.charsmap);
  const kind = KINDS[trainer.kind] ?? `kind ${trainer.kind}`;
  if (kind !== "unigram" && kind !== "bpe") {
    throw new RangeError(`a model of type ${kind}, this package knows unigram and bpe`);
  }
  return {
    pieces,
    kind,
    byteFallback: trainer.byteFallback,
    unknownPiece: names.unknown || "<unk>",
    beginPiece: names.begin || "<s>",
    endPiece: names.end || "</s>",
    normalizer: {
      charsmap: spec.charsmap,
      addDummyPrefix: spec.dummy,
      removeExtraWhitespaces: spec.extra,
      escapeWhitespaces: spec.escape,
      whitespaceAsSuffix: trainer.suffix,
    },
  };
}

function piece(data: Uint8Array, message: Field): Piece {
  let text = "";
  let score = 0;
  let type = NORMAL;
  const seen = new Set<number>();
  for (const field of fieldsOf(data, message.begin, message.end)) {
    if (seen.has(field.number)) throw new RangeError("a piece has a field twice");
    seen.add(field.number);
    if (field.number === 1 && field.wire === "bytes") {
      if (field.end - field.begin > LONGEST_PIECE) throw new RangeError("a piece is too long");
      text = textOf(data, field);
    } else if (field.number === 2 && field.wire === "fixed32") {
      score = new DataView(data.buffer, data.byteOffset + field.begin, 4).getFloat32(0, true);
    } else if (field.number === 3 && field.wire === "varint") type = field.value;
    else throw new RangeError("a piece has a field that pieces do not have");
  }
  return { text, score, type };
}

/** Refuse a field of the expected number that is of another type. */
function checkWires(field: Field, bytes: readonly number[], varints: readonly number[]): void {
  const wire = bytes.includes(field.number) ? "bytes" : varints.includes(field.number) ? "varint" : null;
  if (wire !== null && field.wire !== wire) {
    throw new RangeError(`field ${field.number} is of another type`);
  }
}

function readTrainer(
  data: Uint8Array,
  message: Field,
  trainer: { kind: number; suffix: boolean; byteFallback: boolean },
  names: { unknown: string; begin: string; end: string },
): void {
  for (const field of fieldsOf(data, message.begin, message.end)) {
    const text = (): string => textOf(data, field);
    checkWires(field, [45, 46, 47], [3, 24, 35]);
    if (field.number === 3) trainer.kind = field.value;
    else if (field.number === 24) trainer.suffix = field.value !== 0;
    else if (field.number === 35) trainer.byteFallback = field.value !== 0;
    else if (field.number === 45) names.unknown = text();
    else if (field.number === 46) names.begin = text();
    else if (field.number === 47) names.end = text();
  }
}

function readNormalizer(
  data: Uint8Array,
  message: Field,
  spec: { charsmap: Uint8Array; dummy: boolean; extra: boolean; escape: boolean },
): void {
  for (const field of fieldsOf(data, message.begin, message.end)) {
    checkWires(field, [2], [3, 4, 5]);
    if (field.number === 2) spec.charsmap = copied(data, field.begin, field.end);
    else if (field.number === 3) spec.dummy = field.value !== 0;
    else if (field.number === 4) spec.extra = field.value !== 0;
    else if (field.number === 5) spec.escape = field.value !== 0;
  }
}

/** What the sentencepiece library refuses, or would fail on; null where there is nothing. */
function flaw(file: SentencePieceFile): string | null {
  const normal = new Set<string>();
  const reserved = new Set<string>();
  const bytes = new Set<string>();
  let unknown = 0;
  for (const { text, type, score } of file.pieces) {
    if (text === "" || text.includes("\0")) return "a piece is empty or has a NUL";
    if (!Number.isFinite(score)) return "a score that is not finite";
    if (!Number.isInteger(type) || type < NORMAL || type > BYTE) return `a piece of type ${type}`;
    const names = type === NORMAL || type === USER_DEFINED || type === UNUSED ? normal : reserved;
    if (names.has(text)) return "two pieces with the same text";
    names.add(text);
    if (type === UNKNOWN) unknown++;
    if (type === BYTE) {
      if (!/^<0x[0-9A-F]{2}>$/.test(text)) return "the piece of a byte is invalid";
      bytes.add(text);
    }
  }
  if (unknown !== 1) return `${unknown} pieces of type unknown, expected 1`;
  if (normal.size === 0) return "no pieces for text";
  const expected = file.byteFallback ? 256 : 0;
  if (bytes.size !== expected) return `${bytes.size} pieces of bytes, expected ${expected}`;
  const own = file.pieces.filter(({ type }) => type === USER_DEFINED).map(({ text }) => text);
  const around: string[] = []; // each begins with the one before
  for (const text of own.sort((a, b) => (a < b ? -1 : 1))) {
    while (around.length > 0 && !text.startsWith(around.at(-1) as string)) around.pop();
    if (around.push(text) > MOST_NESTED) return "too many user-defined pieces begin with one another";
  }
  return null;
}
