/**
 * BERT's WordPiece tokenizer, with the ids of the `tokenizers` library.
 *
 * Each word is cut greedily into the longest pieces of the vocabulary (Wu et al., "Google's Neural
 * Machine Translation System", 2016, section 4.1, with longest-match-first as BERT does it). A query
 * has few words and most were seen before, so a bounded memory of words makes this fast.
 */

import { CorruptArtifactError, InvalidInputError } from "../errors.js";
import { characterCount, repr } from "../python_text.js";
import { isWellFormed } from "../utf8.js";
import { type AddedToken, AddedTokens } from "./added_tokens.js";
import { type BertNormalizer, splitWords } from "./bert_normalizer.js";
import type { Tokenizer } from "./tokenizer.js";
import { readWordPieceFile, type WordPieceFile } from "./wordpiece_file.js";

const REMEMBERED_WORDS = 1 << 15;
const CHARACTERS_A_WORD = 8; // that are remembered, on average; queries' words have five or six

/** Text to ids for BERT-like encoders. */
export class WordPieceTokenizer implements Tokenizer {
  readonly vocabularySize: number;
  readonly unknownId: number;
  readonly #before: readonly number[];
  readonly #after: readonly number[];
  readonly #room: number;
  readonly #truncateLeft: boolean;
  readonly #enough: number;
  readonly #normalizer: BertNormalizer;
  readonly #literals: AddedTokens;
  readonly #normalLiterals: AddedTokens | null;
  readonly #initial: Pieces;
  readonly #inner: Pieces;
  readonly #maxWordLength: number;
  readonly #tokens: ReadonlyMap<number, string>;
  readonly #remembered = new Map<string, readonly number[]>();
  readonly #rememberedWords: number;
  #roomForCharacters: number;

  /**
   * `data`: the bytes of a Hugging Face `tokenizer.json`; its padding and its truncation length are
   * left aside. `maxLength`: ids per text at most, [CLS] and [SEP] among them. `rememberedWords`:
   * how many words' pieces are kept in memory, of eight characters on average; 0 keeps none.
   *
   * Throws CorruptArtifactError (`data` is not such a file) or InvalidInputError (`maxLength` has
   * no room for one piece).
   */
  constructor(data: Uint8Array, maxLength: number, rememberedWords = REMEMBERED_WORDS) {
    const file = readWordPieceFile(data);
    this.#before = file.before;
    this.#after = file.after;
    const around = file.before.length + file.after.length;
    this.#room = roomOf(maxLength, around);
    this.#truncateLeft = file.truncateLeft;
    this.#enough = file.truncateLeft ? Number.POSITIVE_INFINITY : this.#room;
    this.#normalizer = file.normalizer;
    this.#literals = new AddedTokens(file.addedTokens.filter((token) => !token.normalized));
    this.#normalLiterals = normalizedLiterals(file.addedTokens, file.normalizer);
    this.#initial = new Pieces(file.vocabulary);
    this.#inner = new Pieces(innerPieces(file));
    this.#maxWordLength = file.maxWordLength;
    this.unknownId = file.vocabulary.get(file.unknownToken) as number;
    this.#tokens = tokensById(file);
    this.vocabularySize = 1 + [...this.#tokens.keys()].reduce((a, b) => Math.max(a, b), 0);
    this.#rememberedWords = rememberedWords;
    this.#roomForCharacters = rememberedWords * CHARACTERS_A_WORD;
  }

  encode(text: string): number[] {
    let ids: number[] = [];
    for (const part of this.#literals.split(text)) {
      if (typeof part === "number") ids.push(part);
      else if (this.#normalLiterals === null) this.#extend(ids, this.#normalizer.words(part));
      else this.#extendNormalized(ids, part, this.#normalLiterals);
    }
    if (ids.length > this.#room) {
      ids = this.#truncateLeft ? ids.slice(-this.#room) : ids.slice(0, this.#room);
    }
    return [...this.#before, ...ids, ...this.#after];
  }

  /** The normalised words of `text`, without the literals of added tokens. */
  words(text: string): string[] {
    const words: string[] = [];
    for (const part of this.#literals.split(text)) {
      if (typeof part === "number") continue;
      const normal = this.#normalizer.normalize(part);
      for (const rest of this.#normalLiterals?.split(normal) ?? [normal]) {
        if (typeof rest === "string") words.push(...splitWords(rest));
      }
    }
    return words;
  }

  /** The ids of the pieces of one normalised word. */
  pieces(word: string): readonly number[] {
    if (this.#isTooLong(word)) return [this.unknownId];
    const whole = this.#initial.ids.get(word);
    return whole === undefined ? this.#cut(word) : [whole];
  }

  tokens(ids: Iterable<number>): string[] {
    return Array.from(ids, (id) => {
      const token = this.#tokens.get(id);
      if (token === undefined) {
        throw new InvalidInputError(
          `found the id ${id}, expected one of the ${this.#tokens.size} of the vocabulary`,
        );
      }
      return token;
    });
  }

  #extendNormalized(ids: number[], part: string, literals: AddedTokens): void {
    for (const rest of literals.split(this.#normalizer.normalize(part))) {
      if (typeof rest === "number") ids.push(rest);
      else this.#extend(ids, splitWords(rest));
    }
  }

  #extend(ids: number[], words: readonly string[]): void {
    for (const word of words) {
      for (const id of this.#remembered.get(word) ?? this.#remember(word)) ids.push(id);
      if (ids.length >= this.#enough) return;
    }
  }

  #remember(word: string): readonly number[] {
    const pieces = this.pieces(word);
    // What is too long is known to be unknown without looking.
    if (this.#rememberedWords === 0 || this.#isTooLong(word)) return pieces;
    this.#roomForCharacters -= word.length;
    if (this.#remembered.size >= this.#rememberedWords || this.#roomForCharacters < 0) {
      this.#remembered.clear();
      this.#roomForCharacters = this.#rememberedWords * CHARACTERS_A_WORD - word.length;
    }
    // As characters put together again: a part of a text may keep the whole text in memory.
    this.#remembered.set(word.split("").join(""), pieces);
    return pieces;
  }

  #isTooLong(word: string): boolean {
    return word.length > this.#maxWordLength && characterCount(word) > this.#maxWordLength;
  }

  /** Longest match first, from the left. */
  #cut(word: string): readonly number[] {
    const found: number[] = [];
    let pieces = this.#initial;
    let start = 0;
    while (start < word.length) {
      const furthest = start + (pieces.reach.get(word.charCodeAt(start)) ?? 0);
      let stop = Math.min(furthest, word.length);
      let id: number | undefined;
      for (; stop > start; stop--) {
        id = pieces.ids.get(word.slice(start, stop));
        if (id !== undefined) break;
      }
      if (id === undefined) return [this.unknownId];
      found.push(id);
      pieces = this.#inner;
      start = stop;
    }
    return found;
  }
}

/** Pieces with their ids, and the length of the longest that begins with each UTF-16 unit. */
class Pieces {
  readonly ids: ReadonlyMap<string, number>;
  readonly reach = new Map<number, number>();

  constructor(ids: ReadonlyMap<string, number>) {
    this.ids = ids;
    for (const piece of ids.keys()) {
      const first = piece.charCodeAt(0);
      // A piece with half of a character would match inside a pair: no text has one, so none fits.
      if (piece.length > (this.reach.get(first) ?? 0) && isWellFormed(piece)) {
        this.reach.set(first, piece.length);
      }
    }
  }
}

function innerPieces(file: WordPieceFile): Map<string, number> {
  const inner = new Map<string, number>();
  for (const [piece, id] of file.vocabulary) {
    if (piece.startsWith(file.prefix)) inner.set(piece.slice(file.prefix.length), id);
  }
  return inner;
}

function tokensById(file: WordPieceFile): Map<number, string> {
  const tokens = new Map<number, string>();
  for (const [piece, id] of file.vocabulary) tokens.set(id, piece);
  for (const token of file.addedTokens) tokens.set(token.id, token.content);
  return tokens;
}

/** Ids of a text that have room beside `around` special ones. Throws InvalidInputError below 1. */
export function roomOf(maxLength: number, around: number): number {
  if (maxLength - around < 1) {
    throw new InvalidInputError(
      `max_length is ${maxLength}, expected at least ${around + 1}: the special tokens and one piece`,
    );
  }
  return maxLength - around;
}

/** The tokens to look for in normalised text; null, the usual case, if there are none. */
function normalizedLiterals(
  tokens: readonly AddedToken[],
  normalizer: BertNormalizer,
): AddedTokens | null {
  const literals: AddedToken[] = [];
  for (const token of tokens) {
    if (!token.normalized) continue;
    const content = normalizer.normalize(token.content);
    if (content === "") {
      throw new CorruptArtifactError(
        `tokenizer.json: nothing is left of the added token ${repr(token.content)} after ` +
          'normalisation; remove it or set its "normalized" to false',
      );
    }
    literals.push({ ...token, content });
  }
  return literals.length > 0 ? new AddedTokens(literals) : null;
}
