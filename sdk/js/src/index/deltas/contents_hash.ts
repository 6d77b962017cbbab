/**
 * The hash of what an index holds, whatever its files look like: Python's `contents.py`. It is over
 * everything a search reads and nothing of how it is stored; docs/formats/search-index.md has it byte by byte.
 */
import { CorruptArtifactError } from "../../errors.js";
import { repr } from "../../python_text.js";
import { hexadecimal } from "../../platform/hashing.js";
import { Sha256 } from "../../platform/sha256.js";
import { encodeUtf8 } from "../../utf8.js";
import type { BaseDocuments } from "./base.js";

const VERSION = "pocketquery-contents-2\n";
const TOGETHER = 1 << 16; // bytes

/**
 * 64 hexadecimal digits. Every id has to lead to its row, too: how a row is found is not in the hash.
 *
 * @param documents none of them deleted
 * @param rows their vectors, uint8 (n, d + 4)
 */
export function contentsSha256(
  documents: BaseDocuments,
  rows: Uint8Array,
  space: { readonly spaceId: string; readonly dimension: number; readonly language: string },
): string {
  const hash = new PiecewiseHash();
  hash.bytes(encodeUtf8(VERSION));
  hash.text(encodeUtf8(`${space.dimension} ${space.spaceId}`));
  hash.text(encodeUtf8(space.language));
  hash.u32(documents.count);
  for (let row = 0; row < documents.count; row++) {
    const { id, metadata, text } = documents.texts(row);
    if (documents.rowOf(id) !== row) {
      throw new CorruptArtifactError(
        `the index of ids does not lead to row ${row}, which has the id ${repr(id)}; copy the ` +
          "index anew",
      );
    }
    for (const one of [id, metadata, text]) hash.text(encodeUtf8(one));
  }
  hash.bytes(rows);
  hash.numbers(Uint32Array.from(documents.lengths));
  hash.numbers(Uint16Array.from(documents.languages));
  for (const { term, rows: found, counts } of documents.postingsByTerm()) {
    if (!found.length) continue;
    hash.text(term);
    hash.u32(found.length);
    hash.numbers(found);
    hash.numbers(counts);
  }
  return hash.digest();
}

/**
 * SHA-256 of many small pieces, put together before they are hashed. Not WebCrypto's, which hashes
 * what is whole in memory alone: that would be a second index.
 */
class PiecewiseHash {
  private readonly hash = new Sha256();
  private readonly waiting = new Uint8Array(TOGETHER);
  private readonly view = new DataView(this.waiting.buffer);
  private used = 0;

  bytes(bytes: Uint8Array): void {
    if (bytes.length > TOGETHER - this.used) this.flush();
    if (bytes.length > TOGETHER) this.hash.update(bytes);
    else {
      this.waiting.set(bytes, this.used);
      this.used += bytes.length;
    }
  }

  u32(value: number): void {
    if (this.used + 4 > TOGETHER) this.flush();
    this.view.setUint32(this.used, value, true);
    this.used += 4;
  }

  text(bytes: Uint8Array): void {
    this.u32(bytes.length);
    this.bytes(bytes);
  }

  numbers({ buffer, byteOffset, byteLength }: Uint32Array | Uint16Array): void {
    this.bytes(new Uint8Array(buffer, byteOffset, byteLength));
  }

  digest(): string {
    this.flush();
    return hexadecimal(this.hash.digest());
  }

  private flush(): void {
    this.hash.update(this.waiting.subarray(0, this.used));
    this.used = 0;
  }
}
