/** A query as it was typed, and its result. */

import { InvalidInputError } from "../errors.js";
import { kindOf, repr } from "../python_text.js";
import { checkText } from "../texts.js";
import { LETTERS, NUMBERS } from "../tokenizer/unicode_classes.js";
import { encodeUtf8 } from "../utf8.js";

export interface Example {
  readonly query: string;
  /** Ids of the documents that the search returned, best first; empty where unknown. */
  readonly shown: readonly string[];
  /** The one of them that the user opened, or null. */
  readonly opened: string | null;
}

/** The three as an example. Throws InvalidInputError where something is no text, or not shown. */
export function checkExample(query: unknown, shown: unknown, opened: unknown): Example {
  const text = checkText(query, "the query");
  if (!Array.isArray(shown)) {
    throw new InvalidInputError(`shown is ${kindOf(shown)}, expected a list of ids`);
  }
  const ids = Array.from(shown as unknown[], (id, place) => checkText(id, `shown[${place}]`));
  if (opened === null || opened === undefined) return { query: text, shown: ids, opened: null };
  const id = checkText(opened, "opened");
  if (!ids.includes(id)) {
    throw new InvalidInputError(
      `opened is ${repr(id)}, expected one of the ${ids.length} shown ids`,
    );
  }
  return { query: text, shown: ids, opened: id };
}

/** Bytes of its texts in UTF-8, as Python counts them. */
export function sizeOf({ query, shown, opened }: Example): number {
  const list = `[${shown.map((id) => JSON.stringify(id)).join(", ")}]`;
  return [query, list, opened ?? ""].reduce((sum, text) => sum + encodeUtf8(text).length, 0);
}

/** `query` as what it is counted by: its words, folded; where there are none, its signs. */
export function plainQuery(query: string): string {
  const folded = Array.from(query.normalize("NFKC"), folding).join("");
  const words = Array.from(folded, (character) => (isOfWord(character) ? character : " ")).join("");
  return inWords(words) || inWords(folded);
}

function isOfWord(character: string): boolean {
  return LETTERS.begins(character) || NUMBERS.begins(character) || character === "_";
}

/** `text` with one space between its words. */
function inWords(text: string): string {
  return text.split(/\s+/u).filter(Boolean).join(" ");
}

/** Python's casefold: full (the sharp s, small or capital, becomes ss), and nothing depends on its place in a word. */
function folding(character: string): string {
  if (character === "\u0131") return character; // the dotless i stays one
  if (character === "\u1e9e") return "ss"; // has no other capital
  return Array.from(character.toUpperCase(), (capital) => capital.toLowerCase()).join("");
}

/**
 * One example of each query, told by `plainQuery`: its newest with an opened result, where there is
 * one, else its newest; in the order in which they came.
 */
export function distinct(examples: readonly Example[]): Example[] {
  const best = new Map<string, number>();
  for (const [place, example] of examples.entries()) {
    const name = plainQuery(example.query);
    const before = best.get(name);
    if (example.opened !== null || before === undefined || examples[before]?.opened === null) {
      best.set(name, place);
    }
  }
  return [...best.values()].sort((a, b) => a - b).map((place) => examples[place] as Example);
}
