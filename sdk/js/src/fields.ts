/**
 * Typed access to the fields of a JSON object that came from elsewhere.
 *
 * Each getter returns the value in the type its name says or throws CorruptArtifactError with the
 * file, the field's path, what was found and what was expected. Whoever wrote the file may have
 * meant harm: parsing takes time and memory in proportion to its size, which the caller bounds.
 */

import { CorruptArtifactError, UnsupportedVersionError } from "./errors.js";
import { isInteger, type Json, type JsonObject, parseJson, plain } from "./json.js";
import { characterCount, repr, shortened } from "./python_text.js";
import { decodeUtf8, isWellFormed } from "./utf8.js";

/** One JSON object: `source` is its file's name, `path` leads to it inside the file. */
export class Fields {
  readonly #values: JsonObject;
  readonly #source: string;
  readonly #path: string;

  constructor(values: JsonObject, source: string, path = "") {
    this.#values = values;
    this.#source = source;
    this.#path = path;
  }

  /** The object in `data` (UTF-8 JSON); throws CorruptArtifactError, also above `mostBytes`. */
  static ofJson(data: Uint8Array, source: string, mostBytes?: number): Fields {
    if (mostBytes !== undefined && data.byteLength > mostBytes) {
      throw new CorruptArtifactError(
        `${source}: found ${data.byteLength} bytes or more, expected at most ${mostBytes}`,
      );
    }
    let values: Json;
    try {
      values = parseJson(decodeUtf8(data));
    } catch (error) {
      const reason = error instanceof SyntaxError ? error.message : "its bytes are not UTF-8";
      throw new CorruptArtifactError(`${source}: not valid JSON: ${reason}`, { cause: error });
    }
    if (!(values instanceof Map)) {
      throw new CorruptArtifactError(
        `${source}: found ${showJson(values)}, expected a JSON object`,
      );
    }
    return new Fields(values, source);
  }

  /** The names of the fields, in order. */
  names(): string[] {
    return [...this.#values.keys()];
  }

  /** The raw fields. */
  entries(): Iterable<[string, Json]> {
    return this.#values;
  }

  /**
   * See that `format_version` is `version`.
   * @param rebuild what to do about an older one
   * @throws UnsupportedVersionError of a newer release, or an older one
   */
  checkVersion(version: number, rebuild: string): void {
    const found = this.integer("format_version", 1);
    if (found === version) return;
    throw new UnsupportedVersionError(
      found > version
        ? `${this.#source}: format_version is ${found}, this release reads up to ${version}; update pocketquery`
        : `${this.#source}: format_version is ${found}, this release reads ${version}; ${rebuild}`,
    );
  }

  /** A text, not empty, of at most `most` characters. */
  text(name: string, most?: number): string {
    const value = this.#get(name);
    if (typeof value !== "string" || value === "") {
      this.#fail(name, value, "a text that is not empty");
    }
    this.#checkText(name, value, most);
    return value;
  }

  /** A text or null; an absent field counts as null. */
  textOrNull(name: string, most?: number): string | null {
    return (this.#values.get(name) ?? null) === null ? null : this.text(name, most);
  }

  /** An integer (true and 1.0 are none) from `least` to `most`, where they are given. */
  integer(name: string, least?: number, most?: number): number {
    const value = this.#get(name);
    if (typeof value !== "number" || !isInteger(this.#values, name)) {
      this.#fail(name, value, "an integer");
    }
    if ((least !== undefined && value < least) || (most !== undefined && value > most)) {
      const span = [
        ...(least === undefined ? [] : [`at least ${least}`]),
        ...(most === undefined ? [] : [`at most ${most}`]),
      ];
      this.#fail(name, value, `an integer, ${span.join(" and ")}`);
    }
    return value;
  }

  /** true or false. */
  boolean(name: string): boolean {
    const value = this.#get(name);
    if (typeof value !== "boolean") this.#fail(name, value, "true or false");
    return value;
  }

  /** One of `options`. */
  choice<T extends string>(name: string, options: readonly T[]): T {
    const value = this.#get(name);
    const found = options.find((option) => option === value);
    if (found === undefined) this.#fail(name, value, `one of ${options.map(repr).join(", ")}`);
    return found;
  }

  /** A list of anything, of at most `most` items. */
  sequence(name: string, most?: number): Json[] {
    const value = this.#get(name);
    if (!Array.isArray(value)) this.#fail(name, value, "a list");
    this.#checkCount(name, value.length, most);
    return value;
  }

  /** An object of anything, of at most `most` fields. */
  mapping(name: string, most?: number): JsonObject {
    const value = this.#get(name);
    if (!(value instanceof Map)) this.#fail(name, value, "an object");
    this.#checkCount(name, value.size, most);
    return value;
  }

  /** An object whose values are texts (empty ones too) of at most `longest` characters. */
  texts(name: string, most?: number, longest?: number): Map<string, string> {
    const texts = new Map<string, string>();
    for (const [key, item] of this.mapping(name, most)) {
      const path = `${name}.${shortened(key)}`;
      if (typeof item !== "string") this.#fail(path, item, "a text");
      this.#checkText(path, key, longest);
      this.#checkText(path, item, longest);
      texts.set(key, item);
    }
    return texts;
  }

  /** The object in the field `name`, to be read the same way. */
  child(name: string, most?: number): Fields {
    return new Fields(this.mapping(name, most), this.#source, `${this.#path}${shortened(name)}.`);
  }

  #checkCount(name: string, count: number, most: number | undefined): void {
    if (most !== undefined && count > most) this.#refuse(name, `${count} entries`, `at most ${most}`);
  }

  #checkText(name: string, value: string, most: number | undefined): void {
    if (most !== undefined && characterCount(value) > most) {
      this.#refuse(name, `${characterCount(value)} characters`, `at most ${most}`);
    }
    if (!isWellFormed(value)) {
      this.#fail(name, value, "a text without halves of characters (lone surrogates)");
    }
  }

  #get(name: string): Json {
    const value = this.#values.get(name);
    if (value === undefined) {
      throw new CorruptArtifactError(
        `${this.#source}: field ${repr(this.#path + name)}: missing, expected it to be there`,
      );
    }
    return value;
  }

  #fail(name: string, found: Json, expected: string): never {
    this.#refuse(name, showJson(found), expected);
  }

  #refuse(name: string, found: string, expected: string): never {
    throw new CorruptArtifactError(
      `${this.#source}: field ${repr(this.#path + name)}: found ${found}, expected ${expected}`,
    );
  }
}

function showJson(value: Json): string {
  const text = JSON.stringify(plain(value)).replace(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return shortened(text);
}
