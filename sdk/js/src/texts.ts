/**
 * What may be encoded: texts, checked before anything is computed.
 *
 * A text is any string that UTF-8 can hold. Empty and blank texts are allowed (they have a vector,
 * that of the special tokens alone), so are NUL and control characters: the tokenizer decides what
 * they mean. A lone surrogate is half a character that was cut somewhere upstream; replacing it
 * silently would hide that, so it is an error that says where.
 */

import { InvalidInputError } from "./errors.js";
import { characterCount, kindOf, repr } from "./python_text.js";
import { firstHalf } from "./utf8.js";

/** `text`, where it is a text that can be encoded; `where` is how an error calls it. */
export function checkText(text: unknown, where = "the text"): string {
  if (typeof text !== "string") {
    const hint = text instanceof Uint8Array ? "; decode it first: new TextDecoder().decode(data)" : "";
    throw new InvalidInputError(`${where} is ${kindOf(text)}, expected a string${hint}`);
  }
  const half = firstHalf(text);
  if (half >= 0) {
    const digits = text.charCodeAt(half).toString(16).toUpperCase();
    throw new InvalidInputError(
      `${where} has the lone surrogate U+${digits} at position ` +
        `${characterCount(text.slice(0, half))}, which is half a character and no text; expected ` +
        "valid Unicode. Repair it where it was cut, or replace it: text.toWellFormed()",
    );
  }
  return text;
}

/** `texts`, where it is a list of texts that can be encoded; names the first item that is not. */
export function checkTexts(texts: unknown): string[] {
  if (!Array.isArray(texts)) {
    throw new InvalidInputError(
      `sentences is ${kindOf(texts)}, expected a string or a list of strings`,
    );
  }
  return Array.from(texts, (text, index) => checkText(text, `sentences[${index}]`)); // a hole is no text
}

/** The names of all options of a kind: the compiler sees that none is missing. */
export type Names<T> = Readonly<Record<keyof T, true>>;

/**
 * `options`, where they are an object with no names but the `known`: a misspelt `publicKey` would check
 * nothing.
 */
export function checkOptions<T extends object>(options: T, known?: Names<T>): T {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new InvalidInputError(`the options: found ${kindOf(options)}, expected an object`);
  }
  const unknown = known && Object.keys(options).find((name) => !Object.hasOwn(known, name));
  if (unknown === undefined) return options;
  const expected = Object.keys(known ?? {}).join(", ");
  throw new InvalidInputError(`the options: found ${repr(unknown)}, expected some of: ${expected}`);
}

/** `value`, where it is a whole number from 1 to `most`; an error calls it `name`. */
export function checkCount(value: unknown, name: string, most?: number): number {
  if (!Number.isInteger(value) || (value as number) < 1 || (value as number) > (most ?? Infinity)) {
    const expected = `a whole number from 1${most === undefined ? "" : ` to ${most}`}`;
    throw new InvalidInputError(`${name} is ${String(value)}, expected ${expected}`);
  }
  return value as number;
}
