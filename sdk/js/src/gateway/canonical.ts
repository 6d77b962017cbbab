/** JSON as Python's `json.dumps(value, sort_keys=True)` writes it. */

import { isInteger, type Json, type JsonObject } from "../json.js";
import { byCodePoint, floatRepr } from "../python_text.js";

/**
 * `value`, which was read from JSON, in ASCII with sorted keys: whole numbers stay whole, fractions
 * are the shortest decimals. `blank` follows commas and colons.
 */
export function canonicalText(value: Json, blank: "" | " " = ""): string {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map((item, i) => part(value, i, item, blank)).join(`,${blank}`)}]`;
  if (!(value instanceof Map)) return JSON.stringify(value);
  const sorted = [...value].sort(([a], [b]) => byCodePoint(a, b));
  const items = sorted.map(([key, item]) => `${quoted(key)}:${blank}${part(value, key, item, blank)}`);
  return `{${items.join(`,${blank}`)}}`;
}

function part(container: Json[] | JsonObject, key: string | number, item: Json, blank: "" | " "): string {
  if (typeof item !== "number") return canonicalText(item, blank);
  return isInteger(container, key) ? String(item) : floatRepr(item);
}

function quoted(text: string): string {
  return JSON.stringify(text).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
