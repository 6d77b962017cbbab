/**
 * The hash of what an index holds, whatever its files look like: Python's `contents.py`. It is over
 * everything a search reads and nothing of how it is stored; docs/formats.md has it byte by byte.
 */
import { hexadecimal } from "../../bundle/signature.js";
import { sha256 } from "../../secure/hashes.js";
import { decodeUtf8, encodeUtf8 } from "../../utf8.js";
import type { BaseDocuments } from "./base.js";

const VERSION = "pocketquery-contents-1\n";

/**
 * 64 hexadecimal digits.
 *
 * @param documents none of them deleted
 * @param rows their vectors, uint8 (n, d + 4)
 */
export function contentsSha256(
  documents: BaseDocuments,
  rows: Uint8Array,
  space: { readonly spaceId: string; readonly dimension: number },
): string {
  // Piece by piece: WebCrypto hashes what is whole in memory alone, which here is a second index.
  const digest = sha256.create();
  const text = (bytes: Uint8Array) => digest.update(u32(bytes.length)).update(bytes);
  digest.update(encodeUtf8(VERSION));
  text(encodeUtf8(`${space.dimension} ${space.spaceId}`));
  digest.update(u32(documents.count));
  for (let row = 0; row < documents.count; row++) {
    const texts = documents.texts(row);
    for (const one of [texts.id, texts.metadata, texts.text]) text(encodeUtf8(one));
  }
  digest.update(rows);
  digest.update(bytesOf(Uint32Array.from(documents.lengths)));
  for (const term of documents.terms()) {
    const { rows: found, counts } = documents.postings(decodeUtf8(term));
    if (!found.length) continue;
    text(term).update(u32(found.length)).update(bytesOf(found)).update(bytesOf(counts));
  }
  return hexadecimal(digest.digest());
}

function u32(value: number): Uint8Array {
  return bytesOf(Uint32Array.of(value));
}

function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array | Uint16Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
