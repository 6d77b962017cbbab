/** What is written down because not every engine knows it: classes of characters, and UTF-8. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { CharacterClass } from "../../dist/tokenizer/character_class.js";
import * as classes from "../../dist/tokenizer/unicode_classes.js";
import { decodeLoosely, decodeUtf8, encodeUtf8, PLAIN } from "../../dist/utf8.js";
import { PACKAGE } from "../fixtures.js";

const NAMES = { LETTERS: "L", MARKS: "M", NUMBERS: "N", DIGITS: "Nd", UPPERCASE: "Uppercase", LOWERCASE: "Lowercase" };

test("the classes of characters are Unicode's", () => {
  assert.deepEqual(Object.keys(classes).sort(), Object.keys(NAMES).sort());
  const unassigned = /\p{Cn}/u; // in this engine's Unicode, which may be older
  for (const [constant, name] of Object.entries(NAMES)) {
    const found = (classes as unknown as Record<string, CharacterClass>)[constant]!;
    const pattern = new RegExp(`\\p{${name}}`, "u");
    const others: string[] = [];
    for (let point = 0; point < 0x110000; point++) {
      const character = String.fromCodePoint(point);
      if (found.has(point) !== pattern.test(character) && !unassigned.test(character)) others.push(point.toString(16));
    }
    const file = readFileSync(join(PACKAGE, "src", "tokenizer", "unicode_classes.ts"), "utf8");
    const written = Number(/in Unicode ([\d.]+)/.exec(file)?.[1]);
    if (Number(process.versions["unicode"]) <= written) assert.deepEqual(others, [], constant);
  }
  assert.ok(!classes.LETTERS.begins("") && classes.LETTERS.begins("é1") && !classes.LETTERS.begins("1é"));
});

test("UTF-8 in plain JavaScript is the platform's", () => {
  let seed = 7;
  const draw = (most: number): number => (seed = (seed * 48271) % 2147483647) % most;
  const starts = [0x00, 0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xa0, 0xed, 0x9f, 0xef, 0xbb, 0xf0, 0x90, 0xf4, 0x8f, 0xf5, 0xff];
  for (let round = 0; round < 20_000; round++) {
    const bytes = Uint8Array.from({ length: draw(9) }, () => (draw(2) ? starts[draw(starts.length)]! : draw(256)));
    assert.equal(PLAIN.decodeLoosely(bytes), decodeLoosely(bytes), bytes.join());
    const strictly = (decode: (bytes: Uint8Array) => string): string => {
      try {
        return decode(bytes);
      } catch (error) {
        return (error as Error).name;
      }
    };
    assert.equal(strictly(PLAIN.decode), strictly(decodeUtf8), bytes.join());
  }
  for (let point = 0; point < 0x110000; point += 1 + draw(90)) {
    const text = `a${String.fromCodePoint(point)}é`;
    assert.deepEqual(PLAIN.encode(text), encodeUtf8(text));
  }
  const long = "ä😀z".repeat(10_000);
  assert.equal(PLAIN.decode(PLAIN.encode(long)), long);
});

