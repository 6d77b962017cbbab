/** Documents in some languages, by the field that indexing gives them; Python's `languages/reading.py`. */
import { InvalidInputError } from "../errors.js";
import { show } from "../python_text.js";
import type { Metadata } from "./document.js";
import type { Filter } from "./filters.js";

const CODE = /^[a-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,3}$/;

/**
 * The language that a document's field "language" names, without its region, as a number below 27 ** 3: two or
 * three letters in base 27, a is 1. 0 where it names none.
 */
export function languageNumber(metadata: Metadata): number {
  const code = Object.hasOwn(metadata, "language") ? metadata["language"] : undefined;
  if (typeof code !== "string" || !CODE.test(code)) return 0;
  const [first, second, third = 0] = Array.from(code.split("-")[0]!, (letter) => letter.charCodeAt(0) - 96);
  return (first! * 27 + second!) * 27 + third;
}

/**
 * A filter for documents in one of these languages: whose field "language" is the code or one of its regions.
 * @throws InvalidInputError no codes
 */
export function languageFilter(languages: readonly string[]): Filter {
  const codes: readonly unknown[] = typeof languages === "string" ? [languages] : Array.from(languages);
  for (const code of codes) {
    if (typeof code !== "string" || !CODE.test(code.toLowerCase())) {
      throw new InvalidInputError(`languages has ${show(code)}, expected codes such as "de", "en", "pt-BR"`);
    }
  }
  if (codes.length === 0) {
    throw new InvalidInputError('languages is empty; expected codes such as "de", or leave it out for any');
  }
  const either = [...new Set([...languages, ...Array.from(languages, usualLetters)])];
  return { $or: [{ language: { $in: either } }, ...either.map((code) => ({ language: { $prefix: `${code}-` } }))] };
}

/** The code as BCP 47 writes it: pt-BR, zh-Hant. */
function usualLetters(code: string): string {
  return code.toLowerCase().replace(/-(?:[a-z]{2}\b|[a-z](?=[a-z]{3}\b))/g, (part) => part.toUpperCase());
}
