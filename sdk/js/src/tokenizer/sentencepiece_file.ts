/**
 * Reading a sentencepiece model: the fields of `sentencepiece_model.proto` that decide how a text is
 * cut. What this package would not follow to the letter is refused.
 */

import { CorruptArtifactError } from "../errors.js";
import { type Field, fieldsOf, textOf } from "../bundle/protobuf.js";
import { copied } from "../files/bytes.js";

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

const LONGEST_PIECE = 1024; // in UTF-16; trainers stop at 16, and the search tries every length
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
  if (file.pieces.length === 0) throw refuse("no pieces");
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
  }
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
  for (const field of fieldsOf(data, message.begin, message.end)) {
    if (field.number === 1) text = textOf(data, field);
    else if (field.number === 2 && field.wire === "fixed32") {
      score = new DataView(data.buffer, data.byteOffset + field.begin, 4).getFloat32(0, true);
    } else if (field.number === 3) type = field.value;
  }
  return { text, score, type };
}

function readTrainer(
  data: Uint8Array,
  message: Field,
  trainer: { kind: number; suffix: boolean; byteFallback: boolean },
  names: { unknown: string; begin: string; end: string },
): void {
  for (const field of fieldsOf(data, message.begin, message.end)) {
    const text = (): string => textOf(data, field);
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
    if (field.number === 2) spec.charsmap = copied(data, field.begin, field.end);
    else if (field.number === 3) spec.dummy = field.value !== 0;
    else if (field.number === 4) spec.extra = field.value !== 0;
    else if (field.number === 5) spec.escape = field.value !== 0;
  }
}

/** What the sentencepiece library itself refuses; null where it does not. */
function flaw(file: SentencePieceFile): string | null {
  const normal = new Set<string>();
  const reserved = new Set<string>();
  const bytes = new Set<string>();
  let unknown = 0;
  for (const { text, type, score } of file.pieces) {
    if (text === "") return "piece must not be empty";
    if (text.length > LONGEST_PIECE) return `a piece of ${text.length} characters`;
    if (!Number.isFinite(score)) return `the score of ${text} is not finite`;
    const names = type === NORMAL || type === USER_DEFINED || type === UNUSED ? normal : reserved;
    if (names.has(text)) return `${text} is already defined`;
    names.add(text);
    if (type === UNKNOWN) unknown++;
    if (type === BYTE) {
      if (!file.byteFallback) return `byte piece ${text} is found although byte_fallback is false`;
      if (!/^<0x[0-9A-F]{2}>$/.test(text)) return `byte piece ${text} is invalid`;
      bytes.add(text);
    }
  }
  if (unknown !== 1) return unknown === 0 ? "unk is not defined" : "unk is already defined";
  if (normal.size === 0) return "no pieces are loaded";
  if (file.byteFallback && bytes.size !== 256) return "there are not 256 byte pieces";
  return null;
}
