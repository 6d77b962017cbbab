/**
 * The Mersenne Twister as Python's `random.Random` has it, so that equal seeds mistype alike.
 *
 * `random`, `below`, `choice`, `shuffle` give the bits of Python's `random()`, `randrange(n)`,
 * `choice` and `shuffle` after `Random(seed)` with a whole number.
 *
 * Source: Matsumoto and Nishimura, "Mersenne Twister", 1998; CPython's `_randommodule.c`.
 */

import { InvalidInputError } from "../errors.js";

const SIZE = 624;
const SHIFT = 397;

/** A generator of random numbers; everything that is drawn is drawn from one. */
export class Random {
  readonly #state = new Uint32Array(SIZE);
  #at = SIZE;

  /** `seed`: a whole number, 0 or more; the system's entropy where none is given. */
  constructor(seed: number | bigint = entropy()) {
    const whole = typeof seed === "bigint" ? seed >= 0n : Number.isSafeInteger(seed) && seed >= 0;
    if (!whole) {
      throw new InvalidInputError(`seed is ${String(seed)}, expected a whole number from 0`);
    }
    const words: number[] = [];
    for (let rest = BigInt(seed); rest > 0n; rest >>= 32n) words.push(Number(rest & 0xffffffffn));
    this.#seed(words.length ? words : [0]);
  }

  /** A number from 0 to below 1, of 53 bits. */
  random(): number {
    const high = this.#next() >>> 5;
    const low = this.#next() >>> 6;
    return (high * 67108864 + low) / 9007199254740992;
  }

  /** A whole number from 0 to below `count`, which is below 2^32. Throws InvalidInputError: there is none. */
  below(count: number): number {
    if (!Number.isInteger(count) || count < 1 || count > 0xffffffff) {
      throw new InvalidInputError(`found ${count} to choose from, expected a whole number from 1, below 2^32`);
    }
    const unused = Math.clz32(count);
    for (;;) {
      const drawn = this.#next() >>> unused;
      if (drawn < count) return drawn;
    }
  }

  /** A whole number from `least` to `most`, both among them. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  /** One of `items`, each as likely. */
  choice<T>(items: ArrayLike<T>): T {
    return items[this.below(items.length)] as T;
  }

  /** A seed for another generator: a whole number below 2^63. */
  seed(): bigint {
    // As Python's getrandbits(63): the lower word first.
    const low = BigInt(this.#next());
    return (BigInt(this.#next() >>> 1) << 32n) | low;
  }

  /** The numbers from 0 to below `count` in any order. */
  permutation(count: number): number[] {
    const order = Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [order[i], order[j]] = [order[j] as number, order[i] as number];
    }
    return order;
  }

  /** `count` different numbers below `size`, in any order; nothing of length `size` is made. */
  sample(size: number, count: number): number[] {
    const moved = new Map<number, number>(); // a shuffle's beginning, by what it changed
    const drawn: number[] = [];
    for (let i = 0; i < count; i++) {
      const j = i + this.below(size - i);
      drawn.push(moved.get(j) ?? j);
      moved.set(j, moved.get(i) ?? i);
    }
    return drawn;
  }

  #seed(words: readonly number[]): void {
    const state = this.#state;
    state[0] = 19650218;
    for (let i = 1; i < SIZE; i++) {
      state[i] = Math.imul(1812433253, mixed(state, i)) + i;
    }
    let i = 1;
    let word = 0;
    for (let left = Math.max(SIZE, words.length); left > 0; left--) {
      state[i] = ((state[i] as number) ^ Math.imul(mixed(state, i), 1664525)) + (words[word] as number) + word;
      word = (word + 1) % words.length;
      i = this.#following(i);
    }
    for (let left = SIZE - 1; left > 0; left--) {
      state[i] = ((state[i] as number) ^ Math.imul(mixed(state, i), 1566083941)) - i;
      i = this.#following(i);
    }
    state[0] = 0x80000000;
    this.#at = SIZE;
  }

  #following(i: number): number {
    if (i + 1 < SIZE) return i + 1;
    this.#state[0] = this.#state[SIZE - 1] as number;
    return 1;
  }

  #next(): number {
    if (this.#at >= SIZE) this.#twist();
    let bits = this.#state[this.#at++] as number;
    bits ^= bits >>> 11;
    bits ^= (bits << 7) & 0x9d2c5680;
    bits ^= (bits << 15) & 0xefc60000;
    return (bits ^ (bits >>> 18)) >>> 0;
  }

  #twist(): void {
    const state = this.#state;
    for (let i = 0; i < SIZE; i++) {
      const bits =
        ((state[i] as number) & 0x80000000) | ((state[(i + 1) % SIZE] as number) & 0x7fffffff);
      state[i] = (state[(i + SHIFT) % SIZE] as number) ^ (bits >>> 1) ^ (bits & 1 ? 0x9908b0df : 0);
    }
    this.#at = 0;
  }
}

function mixed(state: Uint32Array, i: number): number {
  const before = state[i - 1] as number;
  return before ^ (before >>> 30);
}

function entropy(): bigint {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2));
  return (BigInt(high) << 32n) | BigInt(low);
}
