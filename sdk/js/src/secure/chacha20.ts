/**
 * ChaCha20 and ChaCha20-Poly1305 (RFC 8439), which WebCrypto lacks: of @noble/ciphers, which the
 * build puts into this file. Every key here is used once, so every nonce is zero.
 */

import { chacha20, chacha20poly1305 } from "@noble/ciphers/chacha.js";
import { CorruptArtifactError } from "../errors.js";

const NONCE = new Uint8Array(12);
const BLOCK = 64;
const TAG_BYTES = 16;

/** The keystream of a key (counter and nonce zero), read from its start. */
export class Keystream {
  readonly #key: Uint8Array;
  #block = 0;
  #rest = new Uint8Array();

  /** `key`: 32 bytes, derived for this stream alone. */
  constructor(key: Uint8Array) {
    this.#key = key;
  }

  /** The next `size` bytes. */
  read(size: number): Uint8Array<ArrayBuffer> {
    const missing = Math.max(0, size - this.#rest.length);
    const blocks = Math.ceil(missing / BLOCK);
    const found = new Uint8Array(this.#rest.length + blocks * BLOCK);
    found.set(this.#rest);
    const more = found.subarray(this.#rest.length);
    chacha20(this.#key, NONCE, more, more, this.#block);
    this.#block += blocks;
    this.#rest = found.slice(size);
    return found.length === size ? found : found.slice(0, size);
  }

  /** The next `count` little-endian words of 16 or 32 bits. */
  words(count: number, bits: 16 | 32): Uint16Array | Uint32Array {
    const { buffer } = this.read((count * bits) / 8);
    return bits === 16 ? new Uint16Array(buffer) : new Uint32Array(buffer);
  }
}

/** `content` in a box that only `key` opens, beside the same `associated` bytes. */
export function seal(key: Uint8Array, content: Uint8Array, associated: Uint8Array): Uint8Array {
  return chacha20poly1305(key, NONCE, associated).encrypt(content);
}

/** What is in `box`. Throws CorruptArtifactError, which says `problem`, where it was not sealed so. */
export function open(key: Uint8Array, box: Uint8Array, associated: Uint8Array, problem: string): Uint8Array {
  if (box.length < TAG_BYTES) throw new CorruptArtifactError(problem);
  try {
    return chacha20poly1305(key, NONCE, associated).decrypt(box);
  } catch (error) {
    throw new CorruptArtifactError(problem, { cause: error });
  }
}
