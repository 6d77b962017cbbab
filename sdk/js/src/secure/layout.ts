/** Layouts of bytes: cut into pieces of known lengths, or refused; and bitmaps. */

import { fromEnd } from "../platform/lists.js";
import { CorruptArtifactError } from "../errors.js";
import { copied } from "../files/bytes.js";

/** The bitmap of `members` of `size`: member j at bit j % 8 (1 is the least) of byte j // 8. */
export function toBitmap(members: Iterable<number>, size: number): Uint8Array {
  const bitmap = new Uint8Array(bitmapBytes(size));
  for (const member of members) bitmap[member >> 3] = (bitmap[member >> 3] as number) | (1 << (member & 7));
  return bitmap;
}

/** The members of a bitmap, in ascending order. Throws CorruptArtifactError: a bit beyond `size`. */
export function membersOf(bitmap: Uint8Array, source: string, size: number): number[] {
  const found: number[] = [];
  for (let member = 0; member < 8 * bitmap.length; member++) {
    if (((bitmap[member >> 3] as number) >> (member & 7)) & 1) found.push(member);
  }
  const last = fromEnd(found) ?? -1;
  if (last >= size) refuse(source, `a bitmap with bit ${last} set, of ${size} members`);
  return found;
}

/** How long a bitmap of `size` members is. */
export function bitmapBytes(size: number): number {
  return Math.ceil(size / 8);
}

/** The pieces of `data` of these lengths, and what is left. Throws CorruptArtifactError: too short. */
export function cut(data: Uint8Array, source: string, ...lengths: number[]): [...pieces: Uint8Array[]] {
  const wanted = lengths.reduce((sum, length) => sum + length, 0);
  if (data.length < wanted) refuse(source, `${data.length} bytes where at least ${wanted} belong`);
  const pieces: Uint8Array[] = [];
  let at = 0;
  for (const length of lengths) pieces.push(copied(data, at, (at += length)));
  return [...pieces, copied(data, at)];
}

/** `data` as `count` pieces of `size` bytes. Throws CorruptArtifactError: it has another length. */
export function equalPieces(data: Uint8Array, source: string, count: number, size: number): Uint8Array[] {
  if (data.length !== count * size) refuse(source, `${data.length} bytes where ${count * size} belong`);
  return Array.from({ length: count }, (_, i) => copied(data, i * size, (i + 1) * size));
}

/** A whole number as 4 bytes, big-endian. */
export function numberOf(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

/** The number of `numberOf`, from `at` on. */
export function numberIn(bytes: Uint8Array, at = 0): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(at);
}

/** Throw the error of a message called `source` in which `found` is wrong. */
export function refuse(source: string, found: string): never {
  throw new CorruptArtifactError(
    `${source} holds ${found}; it was damaged, or is of another round or version`,
  );
}
