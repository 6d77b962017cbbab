/** Base 64, in which gateways and file systems of React Native hand over bytes; not every Hermes has `atob`. */

import { InvalidInputError } from "../errors.js";

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PAD = 61; // "="
const NONE = 255;

let places: Uint8Array | undefined; // by the digit's code

/**
 * The bytes in base 64; line breaks are passed over, the padding may be left out.
 * @throws InvalidInputError another character
 */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  if (places === undefined) {
    places = new Uint8Array(256).fill(NONE);
    for (let i = 0; i < DIGITS.length; i++) places[DIGITS.charCodeAt(i)] = i;
  }
  const digits = places;
  const bytes = new Uint8Array(Math.ceil((text.length * 3) / 4));
  let [end, group, bits] = [0, 0, 0];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    const digit = digits[code];
    if (digit === undefined || digit === NONE) {
      if (code === PAD || code === 10 || code === 13) continue;
      throw new InvalidInputError(`found the character ${JSON.stringify(text[i])} at position ${i}, expected base 64`);
    }
    group = (group << 6) | digit;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes[end++] = group >> bits;
  }
  return bytes.subarray(0, end);
}

/** `bytes` in base 64, on one line. */
export function toBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  let part = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const [a, b, c] = [bytes[i]!, bytes[i + 1], bytes[i + 2]];
    const group = (a << 16) | ((b ?? 0) << 8) | (c ?? 0);
    part += DIGITS[group >> 18]! + DIGITS[(group >> 12) & 63]!;
    part += b === undefined ? "==" : DIGITS[(group >> 6) & 63]! + (c === undefined ? "=" : DIGITS[group & 63]!);
    if (part.length >= 4096) {
      parts.push(part);
      part = "";
    }
  }
  return parts.join("") + part;
}
