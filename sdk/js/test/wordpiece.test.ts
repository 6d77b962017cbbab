/** What the WordPiece tokenizer remembers of texts is bounded, whatever they are. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { WordPieceTokenizer } from "../dist/tokenizer/wordpiece.js";
import { read } from "./fixtures.js";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const FILE = read("tiny/tokenizer.json");
const numbers = (count: number): string[] => Array.from({ length: count }, (_, i) => String(i).padStart(6, "0"));

/** Bytes that stay in memory when `encode` has seen the texts, which are made one by one. */
function kept(tokenizer: WordPieceTokenizer, texts: readonly string[], make: (text: string) => string): number {
  tokenizer.encode(make("warm"));
  collect();
  const before = process.memoryUsage().heapUsed;
  for (const text of texts) tokenizer.encode(make(text));
  collect();
  return process.memoryUsage().heapUsed - before;
}

test("a word that is remembered does not keep its text in memory", () => {
  const rest = "a ".repeat(50_000);
  const bytes = kept(new WordPieceTokenizer(FILE, 8), numbers(200), (name) => `seashellsea${name} ${rest}${name}`);
  assert.ok(bytes < 2_000_000, `${bytes} bytes of 200 texts of 100,000 characters`);
});

test("words are remembered up to eight characters on average, and not where they are too long", () => {
  const long = kept(new WordPieceTokenizer(FILE, 64), numbers(20_000), (name) => `${name}${"sea".repeat(26)}`);
  assert.ok(long < 4_000_000, `${long} bytes of 20,000 words`);
  const longer = kept(new WordPieceTokenizer(FILE, 64), numbers(100), (name) => name.repeat(15_000));
  assert.ok(longer < 1_000_000, `${longer} bytes of 100 words that are too long`);
});

test("what is remembered changes no ids", () => {
  const [few, none] = [new WordPieceTokenizer(FILE, 64, 10), new WordPieceTokenizer(FILE, 64, 0)];
  const words = numbers(50).map((name, i) => `${"sea".repeat(1 + (i % 40))}${"s".repeat(i)} ${name}`);
  for (const text of [...words, ...words.reverse()]) {
    assert.deepEqual(few.encode(`${text} ${text}`), none.encode(`${text} ${text}`));
  }
});
