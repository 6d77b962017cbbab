/** Texts as UTF-8 and back. */

const HALVES = /[\uD800-\uDFFF]/u; // with the flag u, only those that are no pair
const REPLACEMENT = 0xfffd;

interface Codec {
  readonly encode: (text: string) => Uint8Array<ArrayBuffer>;
  readonly decode: (bytes: Uint8Array) => string;
  /** With U+FFFD in the place of what is not UTF-8. */
  readonly decodeLoosely: (bytes: Uint8Array) => string;
}

/** The platform's; Hermes has none, and not every polyfill knows `fatal`. */
function nativeCodec(): Codec | null {
  try {
    const encoder = new TextEncoder();
    const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    const loose = new TextDecoder("utf-8", { ignoreBOM: true });
    if (!strict.fatal || !strict.ignoreBOM) return null;
    return {
      encode: (text) => encoder.encode(text),
      decode: (bytes) => strict.decode(bytes),
      decodeLoosely: (bytes) => loose.decode(bytes),
    };
  } catch {
    return null;
  }
}

/** The same in plain JavaScript. */
export const PLAIN: Codec = {
  encode: encodePlain,
  decode: (bytes) => decodePlain(bytes, true),
  decodeLoosely: (bytes) => decodePlain(bytes, false),
};

const CODEC = /* @__PURE__ */ nativeCodec() ?? PLAIN;

/** The bytes of `text`, which has no lone surrogates. */
export function encodeUtf8(text: string): Uint8Array<ArrayBuffer> {
  return CODEC.encode(text);
}

/** The text in `bytes`. Throws TypeError where they are not UTF-8; a byte order mark is kept. */
export function decodeUtf8(bytes: Uint8Array): string {
  return CODEC.decode(bytes);
}

/** The text in `bytes`, with U+FFFD in the place of what is not UTF-8; a byte order mark is kept. */
export function decodeLoosely(bytes: Uint8Array): string {
  return CODEC.decodeLoosely(bytes);
}

/** Whether `text` has no half of a character (a lone surrogate). */
export function isWellFormed(text: string): boolean {
  return !HALVES.test(text);
}

/** Where in `text` the first lone surrogate stands, in UTF-16 units; -1 where there is none. */
export function firstHalf(text: string): number {
  return text.search(HALVES);
}

function encodePlain(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(3 * text.length);
  let end = 0;
  for (let at = 0; at < text.length; at++) {
    let point = text.codePointAt(at) as number;
    if (point < 0x80) {
      bytes[end++] = point;
      continue;
    }
    if (point > 0xffff) at++;
    else if (point >= 0xd800 && point < 0xe000) point = REPLACEMENT; // half a character
    const more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    bytes[end++] = ((0xff00 >> (more + 1)) & 0xff) | (point >> (6 * more));
    for (let left = more - 1; left >= 0; left--) bytes[end++] = 0x80 | ((point >> (6 * left)) & 0x3f);
  }
  return bytes.slice(0, end);
}

/** As the Encoding Standard has it: what is broken off counts as one character, up to where it breaks. */
function decodePlain(bytes: Uint8Array, strict: boolean): string {
  const texts: string[] = [];
  let units: number[] = [];
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at++] as number;
    let point = first < 0x80 ? first : -1;
    const more = first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if (more > 0) point = first & (0x3f >> more);
    for (let i = 0; i < more && point >= 0; i++) {
      // The second byte's bounds leave out what has a shorter form, halves, and what is beyond Unicode.
      const low = i > 0 ? 0x80 : first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
      const high = i > 0 ? 0xbf : first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
      const next = bytes[at] ?? 0;
      if (next < low || next > high) point = -1;
      else [point, at] = [(point << 6) | (next & 0x3f), at + 1];
    }
    if (point < 0 && strict) throw new TypeError(`the byte at ${at} is not UTF-8`);
    if (point < 0) point = REPLACEMENT;
    if (point < 0x10000) units.push(point);
    else units.push(0xd7c0 + (point >> 10), 0xdc00 | (point & 0x3ff));
    if (units.length >= 4096) {
      texts.push(String.fromCharCode(...units));
      units = [];
    }
  }
  return texts.join("") + String.fromCharCode(...units);
}
