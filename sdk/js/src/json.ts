/**
 * JSON that came from elsewhere, read as strictly as Python's side reads it: each key once, numbers
 * that are finite and of 64 bits, at most 64 lists and objects inside one another. `JSON.parse`
 * lets the last of two equal keys win and cannot tell 1.0 from 1.
 */

/** A parsed value. Objects are maps: any key is safe in them, and they keep their order. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = Map<string, Json>;

const DEEPEST = 64;
const DIGITS = 20; // of an integer, its sign among them
const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\x00-\x1f]*/y;
const ESCAPED = /(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*/y;
const WORDS = new Map<string, Json>([["true", true], ["false", false], ["null", null]]);

/** Whole numbers that were written with a fraction or exponent, by the list or object they are in. */
const fractions = new WeakMap<object, Set<string | number>>();

/** Whether the number under `key` in `container` was written as an integer ("1", not "1.0"). */
export function isInteger(container: JsonObject | Json[], key: string | number): boolean {
  const value = container instanceof Map ? container.get(String(key)) : container[Number(key)];
  return Number.isInteger(value) && !fractions.get(container)?.has(key);
}

/** The value in `text`. Throws SyntaxError; the message says where. */
export function parseJson(text: string): Json {
  return new Parser(text).document();
}

/** `value` as plain objects and lists, for a caller to use as it likes. */
export function plain(value: Json): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!(value instanceof Map)) return value;
  return Object.fromEntries([...value].map(([key, item]) => [key, plain(item)]));
}

class Parser {
  readonly #text: string;
  #at = 0;
  #fraction = false; // whether the number read last was written as one

  constructor(text: string) {
    this.#text = text;
  }

  document(): Json {
    const value = this.#value(0);
    if (this.#at < this.#text.length) this.#fail("more after its end");
    return value;
  }

  #value(depth: number): Json {
    this.#match(SPACE);
    this.#fraction = false;
    const value = this.#item(depth);
    this.#match(SPACE);
    return value;
  }

  #item(depth: number): Json {
    switch (this.#text[this.#at]) {
      case "{":
        return this.#object(depth + 1);
      case "[":
        return this.#list(depth + 1);
      case '"':
        return this.#string();
      default:
        return this.#number();
    }
  }

  #object(depth: number): JsonObject {
    const found: JsonObject = this.#enter(depth, new Map());
    if (this.#closes("}")) return found;
    for (;;) {
      this.#match(SPACE);
      if (this.#text[this.#at] !== '"') this.#fail("a key expected");
      const key = this.#string();
      this.#match(SPACE);
      if (this.#text[this.#at++] !== ":") this.#fail('":" expected');
      if (found.has(key)) this.#fail(`the key ${JSON.stringify(key.slice(0, 80))} occurs twice`);
      const value = this.#value(depth);
      found.set(key, value);
      this.#note(found, key, value);
      if (this.#closes("}")) return found;
      if (this.#text[this.#at++] !== ",") this.#fail('"," or "}" expected');
    }
  }

  #list(depth: number): Json[] {
    const found: Json[] = this.#enter(depth, []);
    if (this.#closes("]")) return found;
    for (;;) {
      const value = this.#value(depth);
      found.push(value);
      this.#note(found, found.length - 1, value);
      if (this.#closes("]")) return found;
      if (this.#text[this.#at++] !== ",") this.#fail('"," or "]" expected');
    }
  }

  #enter<T extends object>(depth: number, container: T): T {
    if (depth > DEEPEST) this.#fail(`nested deeper than ${DEEPEST}`);
    this.#at++;
    this.#match(SPACE);
    return container;
  }

  #closes(bracket: string): boolean {
    if (this.#text[this.#at] !== bracket) return false;
    this.#at++;
    return true;
  }

  #note(container: object, key: string | number, value: Json): void {
    if (!this.#fraction || !Number.isInteger(value)) return;
    this.#fraction = false;
    const noted = fractions.get(container) ?? new Set();
    fractions.set(container, noted.add(key));
  }

  #string(): string {
    const begin = this.#at++;
    const text = this.#match(PLAIN);
    if (this.#closes('"')) return text;
    this.#match(ESCAPED);
    if (!this.#closes('"')) this.#fail("a text that does not end, or with a control character");
    return JSON.parse(this.#text.slice(begin, this.#at)) as string;
  }

  #number(): Json {
    for (const [word, value] of WORDS) {
      if (this.#text.startsWith(word, this.#at)) {
        this.#at += word.length;
        return value;
      }
    }
    NUMBER.lastIndex = this.#at;
    const found = NUMBER.exec(this.#text);
    if (found === null) this.#fail("a value expected");
    this.#at = NUMBER.lastIndex;
    this.#fraction = found[1] !== undefined || found[2] !== undefined;
    if (!this.#fraction && found[0].length > DIGITS) {
      this.#fail(`an integer of ${found[0].length} digits, expected at most ${DIGITS}`);
    }
    const value = Number(found[0]);
    if (!Number.isFinite(value)) this.#fail(`the number ${found[0].slice(0, 80)} is too large`);
    return value;
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? "";
    this.#at += found.length;
    return found;
  }

  #fail(reason: string): never {
    throw new SyntaxError(`${reason} (character ${this.#at})`);
  }
}
