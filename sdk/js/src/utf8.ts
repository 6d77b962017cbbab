/** Texts as UTF-8 and back, strictly. */

const ENCODER = /* @__PURE__ */ new TextEncoder();
const HALVES = /[\uD800-\uDFFF]/u; // with the flag u, only those that are no pair

/** The bytes of `text`, which has no lone surrogates. */
export function encodeUtf8(text: string): Uint8Array<ArrayBuffer> {
  return ENCODER.encode(text);
}

/** The text in `bytes`. Throws TypeError where they are not UTF-8; a byte order mark is kept. */
export function decodeUtf8(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}

/** Whether `text` has no half of a character (a lone surrogate). */
export function isWellFormed(text: string): boolean {
  return !HALVES.test(text);
}

/** Where in `text` the first lone surrogate stands, in UTF-16 units; -1 where there is none. */
export function firstHalf(text: string): number {
  return text.search(HALVES);
}
