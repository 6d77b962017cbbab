/**
 * Sentencepiece models (`tokenizer.model`), in the id layouts that encoders use.
 *
 * `plain`: ids as the model numbers its pieces, with its own beginning and end ids around a text.
 *
 * `xlm-roberta`: the layout of XLM-R and its relatives, `<s>` 0, `<pad>` 1, `</s>` 2, `<unk>` 3, then
 * every piece at its number in the model plus one, `<mask>` last. Literals such as "</s>" in a text
 * become their ids, as in `transformers`' XLMRobertaTokenizerFast.
 */

import { CorruptArtifactError, InvalidInputError } from "../errors.js";
import { repr } from "../python_text.js";
import { type AddedToken, AddedTokens } from "./added_tokens.js";
import { SentencePieceModel } from "./sentencepiece_model.js";
import type { Tokenizer } from "./tokenizer.js";
import { roomOf } from "./wordpiece.js";

const LAYOUTS: readonly unknown[] = ["xlm-roberta", "plain"];
const SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"];
const FIRST_PIECE = 3; // in the file of an XLM-R model: <unk>, <s>, </s>, pieces

/** Text to ids through a sentencepiece model. */
export class SentencePieceTokenizer implements Tokenizer {
  readonly vocabularySize: number;
  readonly unknownId: number;
  readonly #model: SentencePieceModel;
  readonly #known: number;
  readonly #shift: number;
  readonly #before: readonly number[];
  readonly #after: readonly number[];
  readonly #room: number;
  readonly #literals: AddedTokens;

  /**
   * `data`: the bytes of a sentencepiece model. `maxLength`: ids per text at most, special tokens
   * among them. `layout`: "xlm-roberta" or "plain". `knownPieces`: pieces of the model numbered from
   * here on become `<unk>` (a vocabulary that was pruned); null knows all.
   *
   * Throws CorruptArtifactError (no sentencepiece model, or not one for this layout) or
   * InvalidInputError (unknown layout, pieces the model does not have, or no room for one piece).
   */
  constructor(data: Uint8Array, maxLength: number, layout: unknown, knownPieces: unknown = null) {
    if (!LAYOUTS.includes(layout)) {
      const found = typeof layout === "string" ? repr(layout) : String(layout);
      throw new InvalidInputError(
        `found the layout ${found}, expected one of ('xlm-roberta', 'plain')`,
      );
    }
    this.#model = new SentencePieceModel(data);
    this.#known = checkedKnownPieces(knownPieces, this.#model.pieces.length);
    const xlm = layout === "xlm-roberta";
    if (xlm) checkXlmRoberta(this.#model);
    const { unknownId, beginId, endId } = this.#model;
    this.#shift = xlm ? 1 : 0;
    this.unknownId = xlm ? 3 : unknownId;
    this.vocabularySize = this.#known + (xlm ? 2 : 0);
    this.#before = xlm ? [0] : beginId < 0 ? [] : [beginId];
    this.#after = xlm ? [2] : endId < 0 ? [] : [endId];
    this.#literals = new AddedTokens(xlm ? xlmLiterals(this.vocabularySize - 1) : []);
    this.#room = roomOf(maxLength, this.#before.length + this.#after.length);
  }

  encode(text: string): number[] {
    return [...this.#before, ...this.encodeText(text).slice(0, this.#room), ...this.#after];
  }

  /** The ids of `text` alone: no special tokens around it, not cut. */
  encodeText(text: string): number[] {
    const ids: number[] = [];
    for (const part of this.#literals.split(text)) {
      if (typeof part === "number") ids.push(part);
      else for (const id of this.#model.encode(part)) ids.push(this.#id(id));
    }
    return ids;
  }

  tokens(ids: Iterable<number>): string[] {
    return Array.from(ids, (id) => this.#token(id));
  }

  #id(id: number): number {
    return id === this.#model.unknownId || id >= this.#known ? this.unknownId : id + this.#shift;
  }

  #token(id: number): string {
    const most = this.vocabularySize - 1;
    if (!Number.isInteger(id) || id < 0 || id > most) {
      throw new InvalidInputError(`found the id ${id}, expected 0 to ${most}`);
    }
    if (this.#shift > 0 && id <= FIRST_PIECE) return SPECIALS[id] as string;
    if (this.#shift > 0 && id === most) return "<mask>";
    return this.#model.pieces[id - this.#shift]?.text as string;
  }
}

function xlmLiterals(mask: number): AddedToken[] {
  const specials = SPECIALS.map((content, id) => ({ content, id }));
  return [...specials, { content: "<mask>", id: mask, lstrip: true }];
}

function checkXlmRoberta({ unknownId, beginId, endId }: SentencePieceModel): void {
  if (unknownId === 0 && beginId === 1 && endId === 2) return;
  throw new CorruptArtifactError(
    `tokenizer.model: found <unk>, <s>, </s> at (${unknownId}, ${beginId}, ${endId}), expected ` +
      'them at (0, 1, 2) for the layout "xlm-roberta"; the layout "plain" takes any model',
  );
}

function checkedKnownPieces(known: unknown, pieces: number): number {
  if (known === null) return pieces;
  if (!Number.isInteger(known) || (known as number) <= FIRST_PIECE || (known as number) > pieces) {
    throw new InvalidInputError(
      `known_pieces is ${String(known)}, expected a whole number from ${FIRST_PIECE + 1} to the ` +
        `model's ${pieces} pieces`,
    );
  }
  return known as number;
}
