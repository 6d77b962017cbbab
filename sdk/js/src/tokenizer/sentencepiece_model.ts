/**
 * Cutting normalised text into a sentencepiece model's pieces, with the ids of the sentencepiece
 * library: its best path (unigram; Kudo, "Subword Regularization", 2018) and its merges (BPE;
 * Sennrich et al., 2016), down to the rounding of scores to float32 and the order of equal ones.
 */

import { decodeLoosely, encodeUtf8 } from "../utf8.js";
import {
  CONTROL,
  NORMAL,
  type Piece,
  readSentencePieceFile,
  type SentencePieceFile,
  UNKNOWN,
  UNUSED,
  USER_DEFINED,
} from "./sentencepiece_file.js";
import { PrefixSet, SentencePieceNormalizer } from "./sentencepiece_normalizer.js";
import { type Cut, merged } from "./sentencepiece_merges.js";

const UNKNOWN_PENALTY = 10;
const LEAST_FLOAT = 1.1754943508222875e-38; // C's FLT_MIN, where the library's search begins

export class SentencePieceModel {
  readonly pieces: readonly Piece[];
  readonly unknownId: number;
  /** -1 where the model has none. */
  readonly beginId: number;
  readonly endId: number;
  readonly #file: SentencePieceFile;
  readonly #normalizer: SentencePieceNormalizer;
  readonly #userDefined: PrefixSet;
  readonly #ids = new Map<string, number>();
  readonly #reserved = new Map<string, number>();
  readonly #reach = new Map<number, number>();
  readonly #unknownScore: number;
  readonly #highest: number;

  /** `data`: the bytes of a `tokenizer.model`. Throws CorruptArtifactError. */
  constructor(data: Uint8Array) {
    this.#file = readSentencePieceFile(data);
    this.pieces = this.#file.pieces;
    let least = Number.POSITIVE_INFINITY;
    let highest = LEAST_FLOAT;
    for (const [id, { text, type, score }] of this.pieces.entries()) {
      if (type !== NORMAL && type !== USER_DEFINED && type !== UNUSED) {
        this.#reserved.set(text, id);
        continue;
      }
      this.#ids.set(text, id);
      const first = text.charCodeAt(0);
      this.#reach.set(first, Math.max(text.length, this.#reach.get(first) ?? 0));
      if (type !== NORMAL) continue;
      least = Math.min(least, score);
      highest = Math.max(highest, score);
    }
    this.#unknownScore = Math.fround(Math.fround(least) - UNKNOWN_PENALTY);
    this.#highest = highest;
    this.#userDefined = new PrefixSet(
      this.pieces.filter((piece) => piece.type === USER_DEFINED).map((piece) => piece.text),
    );
    this.#normalizer = new SentencePieceNormalizer(this.#file.normalizer, this.#userDefined);
    this.unknownId = this.pieces.findIndex((piece) => piece.type === UNKNOWN);
    this.beginId = this.#control(this.#file.beginPiece);
    this.endId = this.#control(this.#file.endPiece);
  }

  /** The numbers, in the model's own file, of the pieces of `text`, which has no lone surrogates. */
  encode(text: string): number[] {
    const normal = this.#normalizer.normalize(text);
    const ids: number[] = [];
    let afterUnknown = false;
    for (const cut of this.#file.kind === "unigram" ? this.#bestPath(normal) : this.#merge(normal)) {
      const unknown = cut.id === this.unknownId;
      if (unknown && this.#file.byteFallback) {
        for (const byte of encodeUtf8(cut.text)) ids.push(this.#byteId(byte));
      } else if (!unknown || !afterUnknown) {
        ids.push(cut.id); // a run of unknown pieces is one
      }
      afterUnknown = unknown;
    }
    return ids;
  }

  /** The number of the piece; the unknown one's where there is none. */
  idOf(piece: string): number {
    return this.#reserved.get(piece) ?? this.#ids.get(piece) ?? this.unknownId;
  }

  #control(piece: string): number {
    const id = this.idOf(piece);
    return this.pieces[id]?.type === CONTROL ? id : -1;
  }

  #byteId(byte: number): number {
    return this.idOf(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
  }

  /** The path of pieces with the highest sum of scores. */
  #bestPath(text: string): Cut[] {
    const size = text.length;
    const scores = new Float32Array(size + 1); // of the best path that ends here
    const starts = new Int32Array(size + 1).fill(-1); // of that path's last piece
    const ids = new Int32Array(size + 1);
    const offer = (start: number, stop: number, id: number, score: number): void => {
      if (starts[stop] !== -1 && !(score > (scores[stop] as number))) return;
      scores[stop] = score;
      starts[stop] = start;
      ids[stop] = id;
    };
    for (let start = 0; start < size; ) {
      const here = scores[start] as number;
      const width = (text.codePointAt(start) as number) > 0xffff ? 2 : 1;
      const furthest = Math.min(size, start + (this.#reach.get(text.charCodeAt(start)) ?? 0));
      let single = false;
      for (let stop = start + width; stop <= furthest; stop++) {
        const found = text.slice(start, stop);
        const id = this.#ids.get(found);
        if (id === undefined) continue;
        const { type, score } = this.pieces[id] as Piece;
        if (type === UNUSED) continue;
        // The library's sum is in double precision and kept in single.
        offer(start, stop, id, (type === USER_DEFINED ? this.#bonus(found) : score) + here);
        single ||= stop === start + width;
      }
      if (!single) {
        offer(start, start + width, this.unknownId, Math.fround(this.#unknownScore + here));
      }
      start += width;
    }
    const path: Cut[] = [];
    for (let stop = size; stop > 0; stop = starts[stop] as number) {
      path.push({ text: text.slice(starts[stop], stop), id: ids[stop] as number });
    }
    return path.reverse();
  }

  /** The score of a piece that is to win always. */
  #bonus(piece: string): number {
    return Math.fround(encodeUtf8(piece).length * this.#highest) - 0.1;
  }

  #merge(text: string): Cut[] {
    return merged(this.#symbols(text), {
      idOf: (piece) => this.idOf(piece),
      mergedId: (piece) => this.#ids.get(piece),
      scoreOf: (id) => (this.pieces[id] as Piece).score,
      isUnused: (id) => this.pieces[id]?.type === UNUSED,
    });
  }

  /** The characters of `text`; user-defined pieces stay whole and are never merged. */
  #symbols(text: string): { text: string; frozen: boolean }[] {
    const symbols: { text: string; frozen: boolean }[] = [];
    const bytes = encodeUtf8(text);
    for (let at = 0; at < bytes.length; ) {
      const kept = this.#userDefined.longest(bytes, at);
      const first = bytes[at] as number;
      const length = kept || (first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4);
      symbols.push({ text: decodeLoosely(bytes.subarray(at, at + length)), frozen: kept > 0 });
      at += length;
    }
    return symbols;
  }
}
