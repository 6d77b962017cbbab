/**
 * The metadata of stored documents as filters see it. Numbers compare as SQLite compares them:
 * whole numbers of 64 bits exactly, so those that a JavaScript number cannot hold are bigints.
 */
import { isObject } from "./document.js";
import { isWellFormed } from "../utf8.js";
import { damaged } from "./sqlite_record.js";

const LONG_NUMBER = /[0-9]{16}/; // shorter ones are exact
const TOKEN = /"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/g;
const WHOLE = /^-?[0-9]{16,}$/;
const EXACT = "\0whole"; // the name that marks such a number while JSON.parse has it
const HALF = /\\u[dD]/; // an escape that can be half a character, which no text of SQLite's is
const INT64 = 2n ** 63n;
const FLOAT64 = 2n ** 1023n;

/** The metadata in `text`, for a caller. */
export function parseMetadata(text: string, file: string): Record<string, unknown> {
  try {
    const metadata: unknown = JSON.parse(text, HALF.test(text) ? whole : undefined);
    if (isObject(metadata)) return metadata;
  } catch {
    // is answered below
  }
  throw damaged(file, "a document's metadata is no JSON object");
}

/** `value`, where it and its name have no half of a character. Throws TypeError. */
function whole(name: string, value: unknown): unknown {
  if (isWellFormed(name) && (typeof value !== "string" || isWellFormed(value))) return value;
  throw new TypeError("half of a character");
}

/** The metadata in `text`, numbers exact, for {@link comparable}. */
export function parseExactly(text: string, file: string): Record<string, unknown> {
  if (!LONG_NUMBER.test(text)) return parseMetadata(text, file);
  const marked = text.replace(TOKEN, (token) =>
    WHOLE.test(token) ? `{${JSON.stringify(EXACT)}:"${token}"}` : token,
  );
  return parseMetadata(marked, file);
}

/** The values a filter compares with: those of a list, else the one; exact numbers as such. */
export function comparable(value: unknown): unknown[] {
  return (Array.isArray(value) ? value : [value]).map((one: unknown) => {
    if (typeof one === "number") return canonical(one);
    if (typeof one !== "object" || one === null || !Object.hasOwn(one, EXACT)) return one;
    const digits = (one as Record<string, unknown>)[EXACT];
    return typeof digits === "string" && WHOLE.test(digits) ? wholeNumber(BigInt(digits)) : one;
  });
}

/** A whole number as SQLite holds it: exact within 64 bits, else the nearest float. */
export function wholeNumber(value: bigint): number | bigint {
  if (value >= -INT64 && value < INT64) {
    return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  }
  if (value < FLOAT64 && value > -FLOAT64) return canonical(Number(String(value))); // beyond 64 bits Hermes knows no other way
  return value > 0n ? Infinity : -Infinity;
}

/** One spelling for equal numbers: a float that is a large whole number becomes a bigint. */
export function canonical(value: number): number | bigint {
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(value) : value;
}
