/** How values are written in messages, so that they read as Python's. */

/** Characters of a value shown in an error. */
const SHOWN = 80;

/** `text`, or its beginning where it is too long for an error. */
export function shortened(text: string): string {
  const characters = Array.from(text.slice(0, 4 * SHOWN));
  return characters.length <= SHOWN ? text : `${characters.slice(0, SHOWN - 3).join("")}...`;
}

/** The number of characters (code points) of `text`. */
export function characterCount(text: string): number {
  let count = text.length;
  for (let i = 1; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0xdc00 && unit <= 0xdfff) {
      const before = text.charCodeAt(i - 1);
      if (before >= 0xd800 && before <= 0xdbff) count--;
    }
  }
  return count;
}

const ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };
let unprintable: RegExp | null = null;

/** Whether every character of `text` is one to be seen, or a plain space. */
export function isPrintable(text: string): boolean {
  unprintable ??= unprintablePattern();
  return !unprintable.test(text);
}

function unprintablePattern(): RegExp {
  try {
    return new RegExp("[\\p{C}\\p{Zl}\\p{Zp}]|(?! )\\p{Zs}", "u");
  } catch {
    return /[^ -~]/; // an engine that does not know Unicode's classes: stricter
  }
}

/** `text` in quotes, as Python's `repr` writes it. */
export function repr(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let written = "";
  for (const character of text) {
    written +=
      character === quote
        ? `\\${character}`
        : (ESCAPES[character] ?? (isPrintable(character) ? character : escaped(character)));
  }
  return quote + written + quote;
}

function escaped(character: string): string {
  const point = character.codePointAt(0) ?? 0;
  const digits = point.toString(16);
  if (point < 0x100) return `\\x${digits.padStart(2, "0")}`;
  return point < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}

/** Numbers, texts and lists of them as Python writes them: `['batch', 384]`. */
export function show(value: unknown): string {
  if (typeof value === "string") return repr(value);
  if (value === null || value === undefined) return "None";
  if (Array.isArray(value)) return `[${value.map(show).join(", ")}]`;
  return String(value);
}

/** A finite number as Python writes a float: "32.0", "1e-05". */
export function floatRepr(value: number): string {
  const [digits = "", power = ""] = value.toExponential().split("e");
  const exponent = Number(power);
  if (value !== 0 && (exponent < -4 || exponent >= 16)) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${digits}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (Object.is(value, -0)) return "-0.0";
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

/** A shape as Python writes a tuple: `(8, 384)`, `(8,)`. */
export function showShape(shape: readonly number[]): string {
  return shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
}

/** What a value is, for an error: "a number", "null", "a Uint8Array". */
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value !== "object") return `a ${typeof value}`;
  return `a ${(value as object).constructor?.name ?? "object"}`;
}

/** Orders texts by code point, as Python does; JavaScript's own order is that of UTF-16. */
export function byCodePoint(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let i = 0; i < length; i++) {
    const [a, b] = [left.charCodeAt(i), right.charCodeAt(i)];
    if (a !== b) return rank(a) - rank(b);
  }
  return left.length - right.length;
}

/** Half of a character beyond U+FFFF comes after U+E000 to U+FFFF, not before. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

// What Python's strip() and isspace() take for blank; JavaScript's trim() has another list.
const BLANK = /^[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*$/;

/** Whether Python's `strip()` would leave nothing of `text`. */
export function isBlank(text: string): boolean {
  return BLANK.test(text);
}

const BLANKS = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;

/** As Python's `split()`. */
export function chunksOf(text: string): string[] {
  return text.split(BLANKS).filter((chunk) => chunk !== "");
}

/** `text` without blank space at its ends, or at its end alone. */
export function stripped(text: string, ends: "both" | "end" = "both"): string {
  // By character: a pattern that ends in $ is tried anew at each blank of a long run within the text.
  let [start, end] = [0, text.length];
  while (end > 0 && isBlank(text[end - 1]!)) end--;
  if (ends === "both") while (start < end && isBlank(text[start]!)) start++;
  return text.slice(start, end);
}
