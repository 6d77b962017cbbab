/** Opens the tokenizer that an encoder needs, whichever vocabulary it was trained with. */

import { InvalidInputError } from "../errors.js";
import type { Json } from "../json.js";
import { byCodePoint, repr, show } from "../python_text.js";
import { SentencePieceTokenizer } from "./sentencepiece.js";
import type { Tokenizer } from "./tokenizer.js";
import { WordPieceTokenizer } from "./wordpiece.js";

/**
 * The tokenizer in a file: `kind` "wordpiece" (a Hugging Face `tokenizer.json`) or "sentencepiece"
 * (a sentencepiece model, with the options `layout` and `known_pieces`).
 *
 * Throws CorruptArtifactError (`data` is not such a file) or InvalidInputError (unknown kind or
 * option, or a `maxLength` without room for a piece).
 */
export function openTokenizer(
  kind: string,
  data: Uint8Array,
  maxLength: number,
  options: ReadonlyMap<string, Json> = new Map(),
): Tokenizer {
  if (kind === "wordpiece") {
    refuse(options.keys());
    return new WordPieceTokenizer(data, maxLength);
  }
  if (kind === "sentencepiece") {
    refuse([...options.keys()].filter((name) => name !== "layout" && name !== "known_pieces"));
    return new SentencePieceTokenizer(
      data,
      maxLength,
      options.get("layout") ?? "xlm-roberta",
      options.get("known_pieces") ?? null,
    );
  }
  throw new InvalidInputError(
    `found the tokenizer kind ${repr(kind)}, expected "wordpiece" or "sentencepiece"`,
  );
}

function refuse(names: Iterable<string>): void {
  const unknown = [...names].sort(byCodePoint);
  if (unknown.length > 0) {
    throw new InvalidInputError(
      `found the tokenizer options ${show(unknown)}, which this kind does not have; was ` +
        "the bundle written by a newer version?",
    );
  }
}
