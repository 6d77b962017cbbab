/**
 * Reading a Hugging Face `tokenizer.json` that holds a BERT WordPiece tokenizer.
 *
 * Whatever in the file this package would not follow to the letter is refused by name, because a
 * tokenizer that is nearly right gives vectors that are quietly wrong. What could make tokenising
 * slow (the length of words, the number of literals) has a bound far above what tokenizers use.
 */

import { CorruptArtifactError } from "../errors.js";
import { isInteger, type Json, type JsonObject, parseJson, plain } from "../json.js";
import { characterCount, repr, shortened, show } from "../python_text.js";
import { decodeUtf8 } from "../utf8.js";
import type { AddedToken } from "./added_tokens.js";
import { BertNormalizer } from "./bert_normalizer.js";

const MOST_IDS = 1 << 24;
const LONGEST_WORD = 1000; // characters; BERT's is 100, and cutting a word takes up to its square
const LONGEST_PREFIX = 16; // characters; BERT's is ##, and each try of a piece copies it
const MOST_ADDED = 4096;
const LONGEST_ADDED = 256; // characters of an added token
const MOST_SPECIALS = 64; // ids around a text

/** What a `tokenizer.json` says. */
export interface WordPieceFile {
  /** The id of each piece; pieces inside a word begin with `prefix`. */
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly unknownToken: string;
  readonly prefix: string;
  /** A longer word (in characters) becomes `unknownToken`. */
  readonly maxWordLength: number;
  readonly normalizer: BertNormalizer;
  readonly addedTokens: readonly AddedToken[];
  /** Ids put before a text ([CLS]) and after it ([SEP]). */
  readonly before: readonly number[];
  readonly after: readonly number[];
  /** Whether a text that is too long loses its beginning instead of its end. */
  readonly truncateLeft: boolean;
}

/** Parse the bytes of a `tokenizer.json`. Throws CorruptArtifactError. */
export function readWordPieceFile(data: Uint8Array): WordPieceFile {
  const document = parsed(data);
  const model = section(document, "model", "WordPiece");
  section(document, "pre_tokenizer", "BertPreTokenizer");
  const vocabulary = vocabularyOf(model);
  const [before, after] = specials(document.get("post_processor") ?? null);
  const truncation = document.get("truncation") ?? null;
  return {
    vocabulary,
    unknownToken: unknownToken(model, vocabulary),
    prefix: prefixOf(model),
    maxWordLength: wordLength(model),
    normalizer: normalizerOf(section(document, "normalizer", "BertNormalizer")),
    addedTokens: addedTokens(document.get("added_tokens") ?? [], vocabulary),
    before,
    after,
    truncateLeft: truncation instanceof Map && truncation.get("direction") === "Left",
  };
}

function broken(found: string, expected: string): CorruptArtifactError {
  return new CorruptArtifactError(
    `tokenizer.json: found ${found}, expected ${expected}; use the file a BERT tokenizer is ` +
      "saved with, unchanged",
  );
}

function parsed(data: Uint8Array): JsonObject {
  let document: Json;
  try {
    document = parseJson(decodeUtf8(data));
  } catch (error) {
    const reason = (error as Error).message;
    throw broken(`bytes that are not JSON (${reason})`, "a JSON object");
  }
  if (!(document instanceof Map)) throw broken(`a JSON ${pythonType(document)}`, "a JSON object");
  return document;
}

function pythonType(value: Json): string {
  if (value === null) return "NoneType";
  if (Array.isArray(value)) return "list";
  const names = { boolean: "bool", number: "number", string: "str" } as const;
  return names[typeof value as keyof typeof names] ?? "dict";
}

function section(document: JsonObject, name: string, kind: string): JsonObject {
  const found = document.get(name);
  if (!(found instanceof Map)) throw broken(`no "${name}"`, `a "${name}" of type ${kind}`);
  const type = found.get("type") ?? (found.has("type") ? "None" : kind);
  if (type !== kind) throw broken(`a "${name}" of type ${shortened(String(type))}`, `type ${kind}`);
  return found;
}

function field(of: JsonObject, name: string, kind: string, where: string, fits: boolean): Json {
  const value = of.get(name);
  if (value !== undefined && fits) return value;
  const found = value === undefined ? `no "${name}"` : `"${name}": ${shortened(show(plain(value)))}`;
  throw broken(`${found} in "${where}"`, `a value of type ${kind}`);
}

function text(of: JsonObject, name: string, where: string): string {
  return field(of, name, "str", where, typeof of.get(name) === "string") as string;
}

function flag(of: JsonObject, name: string, where: string): boolean {
  return field(of, name, "bool", where, typeof of.get(name) === "boolean") as boolean;
}

function integer(of: JsonObject, name: string, where: string): number {
  return field(of, name, "int", where, isInteger(of, name)) as number;
}

function isId(container: JsonObject | Json[], key: string | number, value: Json): value is number {
  return isInteger(container, key) && (value as number) >= 0 && (value as number) < MOST_IDS;
}

function vocabularyOf(model: JsonObject): Map<string, number> {
  const vocabulary = field(model, "vocab", "dict", "model", model.get("vocab") instanceof Map);
  for (const [piece, number] of vocabulary as JsonObject) {
    if (!isId(vocabulary as JsonObject, piece, number)) {
      throw broken(
        `the id ${shortened(show(plain(number)))} for ${repr(shortened(piece))}`,
        `a whole number from 0 to ${MOST_IDS - 1}`,
      );
    }
  }
  const found = vocabulary as Map<string, number>;
  if (new Set(found.values()).size !== found.size) {
    throw broken("two pieces with the same id", "one id for each piece");
  }
  return found;
}

function unknownToken(model: JsonObject, vocabulary: ReadonlyMap<string, number>): string {
  const token = text(model, "unk_token", "model");
  if (!vocabulary.has(token)) {
    throw broken(`the unknown token ${repr(token)} missing from the vocabulary`, "it to be there");
  }
  return token;
}

function prefixOf(model: JsonObject): string {
  const prefix = text(model, "continuing_subword_prefix", "model");
  const length = characterCount(prefix);
  if (length <= LONGEST_PREFIX) return prefix;
  throw broken(`a "continuing_subword_prefix" of ${length} characters`, `at most ${LONGEST_PREFIX}`);
}

function wordLength(model: JsonObject): number {
  const length = integer(model, "max_input_chars_per_word", "model");
  if (length < 0 || length > LONGEST_WORD) {
    throw broken(`"max_input_chars_per_word": ${length}`, `0 to ${LONGEST_WORD}`);
  }
  return length;
}

function normalizerOf(of: JsonObject): BertNormalizer {
  const accents = of.get("strip_accents") ?? null;
  return new BertNormalizer({
    cleanText: flag(of, "clean_text", "normalizer"),
    handleChineseChars: flag(of, "handle_chinese_chars", "normalizer"),
    lowercase: flag(of, "lowercase", "normalizer"),
    stripAccents: accents === null ? null : flag(of, "strip_accents", "normalizer"),
  });
}

function addedTokens(entries: Json, vocabulary: ReadonlyMap<string, number>): AddedToken[] {
  if (!Array.isArray(entries) || !entries.every((entry) => entry instanceof Map)) {
    throw broken('"added_tokens" of another shape', "a list of objects");
  }
  if (entries.length > MOST_ADDED) {
    throw broken(`${entries.length} "added_tokens"`, `at most ${MOST_ADDED}`);
  }
  const tokens = new Map<string, AddedToken>();
  let free = vocabulary.size;
  for (const entry of entries) {
    const token = addedToken(entry as JsonObject);
    if (tokens.has(token.content)) continue;
    // The library gives out these ids itself and does not read them from the file.
    const expected = vocabulary.get(token.content) ?? free;
    if (token.id !== expected) {
      throw broken(`the added token ${repr(token.content)} with id ${token.id}`, `id ${expected}`);
    }
    free = Math.max(free, expected + 1);
    tokens.set(token.content, token);
  }
  return [...tokens.values()];
}

function addedToken(entry: JsonObject): AddedToken {
  const content = text(entry, "content", "added_tokens");
  if (characterCount(content) > LONGEST_ADDED) {
    const found = `an added token of ${characterCount(content)} characters`;
    throw broken(found, `at most ${LONGEST_ADDED} in each`);
  }
  return {
    content,
    id: integer(entry, "id", "added_tokens"),
    singleWord: flag(entry, "single_word", "added_tokens"),
    lstrip: flag(entry, "lstrip", "added_tokens"),
    rstrip: flag(entry, "rstrip", "added_tokens"),
    normalized: flag(entry, "normalized", "added_tokens"),
  };
}

/** The ids before and after a text. */
function specials(section: Json): [number[], number[]] {
  if (section === null) return [[], []];
  const kind = section instanceof Map ? section.get("type") : section;
  const names = "TemplateProcessing or BertProcessing";
  if (!(section instanceof Map)) {
    throw broken(`a "post_processor" of type ${shortened(String(plain(section)))}`, names);
  }
  const incomplete = (reason: string): CorruptArtifactError =>
    broken(`an incomplete "post_processor" (${reason})`, `a ${kind} section`);
  if (kind === "BertProcessing") {
    return [bertId(section, "cls", incomplete), bertId(section, "sep", incomplete)];
  }
  if (kind === "TemplateProcessing") return template(section, incomplete);
  throw broken(`a "post_processor" of type ${shortened(String(plain(kind ?? null)))}`, names);
}

type Incomplete = (reason: string) => CorruptArtifactError;

function bertId(section: JsonObject, name: string, incomplete: Incomplete): number[] {
  const pair = section.get(name);
  if (!Array.isArray(pair) || pair.length < 2 || !isId(pair, 1, pair[1] as Json)) {
    throw incomplete(`"${name}"`);
  }
  return [pair[1] as number];
}

function template(section: JsonObject, incomplete: Incomplete): [number[], number[]] {
  const parts = section.get("single");
  const known = section.get("special_tokens");
  if (!Array.isArray(parts) || !parts.every((part) => part instanceof Map)) {
    throw incomplete('"single"');
  }
  if (!(known instanceof Map)) throw incomplete('"special_tokens"');
  if (parts.length > MOST_SPECIALS) {
    throw incomplete(`${parts.length} parts of a text, at most ${MOST_SPECIALS}`);
  }
  const places = parts.flatMap((part, i) => ((part as JsonObject).has("Sequence") ? [i] : []));
  if (places.length !== 1) throw incomplete(`${places.length} places for the text`);
  const ids = parts.map((part, i) =>
    i === places[0] ? [] : specialIds(part as JsonObject, known, incomplete),
  );
  return [ids.slice(0, places[0]).flat(), ids.slice(places[0]).flat()];
}

function specialIds(part: JsonObject, known: JsonObject, incomplete: Incomplete): number[] {
  const special = part.get("SpecialToken");
  const name = special instanceof Map ? special.get("id") : undefined;
  const entry = typeof name === "string" ? known.get(name) : undefined;
  const ids = entry instanceof Map ? entry.get("ids") : undefined;
  if (!Array.isArray(ids)) throw incomplete('a "SpecialToken" without ids');
  if (ids.length > MOST_SPECIALS || !ids.every((id, i) => isId(ids, i, id))) {
    throw incomplete(`ids ${shortened(show(plain(ids)))}`);
  }
  return ids as number[];
}
