/**
 * SHA-256 in plain JavaScript: of bytes that come in pieces, which WebCrypto does not take, and for engines
 * without WebCrypto (Hermes).
 *
 * Source: FIPS 180-4, sections 4.1.2, 4.2.2, 5.1.1, 5.3.3 and 6.2.2.
 */

const BLOCK = 64; // bytes
const ROUNDS = 64;
const LENGTH_BYTES = 8;

/** The first 32 bits of the fractional parts of `root` of the first `count` primes. */
function fractions(count: number, root: (prime: number) => number): Int32Array {
  const found: number[] = [];
  for (let candidate = 2; found.length < count; candidate++) {
    let divisor = 2;
    while (divisor * divisor <= candidate && candidate % divisor !== 0) divisor++;
    if (divisor * divisor > candidate) found.push((root(candidate) % 1) * 2 ** 32);
  }
  return Int32Array.from(found, (value) => value | 0);
}

const START = /* @__PURE__ */ fractions(8, Math.sqrt);
const CONSTANTS = /* @__PURE__ */ fractions(ROUNDS, Math.cbrt);

/** A hash of bytes that come in pieces. */
export class Sha256 {
  readonly #state = START.slice();
  readonly #words = new Int32Array(ROUNDS);
  readonly #waiting = new Uint8Array(BLOCK); // less than a block
  #length = 0;

  update(data: Uint8Array): void {
    const used = this.#length % BLOCK;
    this.#length += data.length;
    if (used + data.length < BLOCK) {
      this.#waiting.set(data, used);
      return;
    }
    let begin = 0;
    if (used) {
      begin = BLOCK - used;
      this.#waiting.set(data.subarray(0, begin), used);
      mix(this.#state, this.#words, this.#waiting, 0, BLOCK);
    }
    const end = data.length - ((data.length - begin) % BLOCK);
    mix(this.#state, this.#words, data, begin, end);
    this.#waiting.set(data.subarray(end));
  }

  /** The 32 bytes, once. */
  digest(): Uint8Array<ArrayBuffer> {
    const length = this.#length;
    const padding = new Uint8Array(2 * BLOCK);
    padding[0] = 0x80;
    const used = BLOCK - (length % BLOCK) + (length % BLOCK < BLOCK - LENGTH_BYTES ? 0 : BLOCK);
    const view = new DataView(padding.buffer);
    view.setUint32(used - 8, Math.floor(length / 2 ** 29));
    view.setUint32(used - 4, (length * 8) >>> 0);
    this.update(padding.subarray(0, used));
    const digest = new DataView(new ArrayBuffer(32));
    for (const [i, value] of this.#state.entries()) digest.setInt32(4 * i, value);
    return new Uint8Array(digest.buffer);
  }
}

/** The 32 bytes of the hash of `data`. */
export function plainSha256(data: Uint8Array): Uint8Array<ArrayBuffer> {
  const hash = new Sha256();
  hash.update(data);
  return hash.digest();
}

function mix(state: Int32Array, words: Int32Array, data: Uint8Array, at: number, end: number): void {
  const constants = CONSTANTS;
  while (at < end) {
    for (let i = 0; i < 16; i++) {
      words[i] = (data[at++]! << 24) | (data[at++]! << 16) | (data[at++]! << 8) | data[at++]!;
    }
    for (let i = 16; i < ROUNDS; i++) {
      const [x, y] = [words[i - 15]!, words[i - 2]!];
      const first = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const second = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      words[i] = words[i - 16]! + first + words[i - 7]! + second;
    }
    let a = state[0]!, b = state[1]!, c = state[2]!, d = state[3]!;
    let e = state[4]!, f = state[5]!, g = state[6]!, h = state[7]!;
    for (let i = 0; i < ROUNDS; i++) {
      const far = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const one = (h + far + (g ^ (e & (f ^ g))) + constants[i]! + words[i]!) | 0;
      const near = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const other = (near + ((a & b) | (c & (a | b)))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + other) | 0;
    }
    state[0]! += a;
    state[1]! += b;
    state[2]! += c;
    state[3]! += d;
    state[4]! += e;
    state[5]! += f;
    state[6]! += g;
    state[7]! += h;
  }
}
