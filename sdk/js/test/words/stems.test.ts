/** Stems are Python's: those of conformance/words, and 20,000 words a language where they were written down. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { type Program, stemmer } from "../../dist/words/stemmer.js";
import { STEMMERS } from "../../dist/words/stemmers/stemmers.js";
import { CONFORMANCE, PACKAGE } from "../fixtures.js";

type Stems = Record<string, [word: string, stem: string][]>;

async function assertEqual(stems: Stems): Promise<void> {
  assert.deepEqual(Object.keys(STEMMERS).sort(), Object.keys(stems).sort());
  for (const [language, pairs] of Object.entries(stems)) {
    const stem = stemmer(JSON.parse((await STEMMERS[language]!()).program) as Program);
    const others = pairs.filter(([word, expected]) => stem(word) !== expected);
    assert.deepEqual(others, [], language);
  }
}

test("every language's stems are Python's", async () => {
  const data = gunzipSync(readFileSync(join(CONFORMANCE, "words", "stems.json.gz")));
  await assertEqual(JSON.parse(data.toString("utf8")) as Stems);
});

const expected = join(process.env["POCKETQUERY_EXPECTED"] ?? "", "stems.json");

test("of 20,000 words a language, too", { skip: !existsSync(expected) }, async () => {
  await assertEqual(JSON.parse(readFileSync(expected, "utf8")) as Stems);
});

test("a language is a small file with Snowball's name, and the licence lies beside it", () => {
  const folder = join(PACKAGE, "dist", "words", "stemmers");
  for (const language of Object.keys(STEMMERS)) {
    const code = readFileSync(join(folder, `${language}.js`), "utf8");
    assert.match(code, /^\/\*! Snowball [\d.]+, BSD 3-Clause: see LICENSE \*\/\n/);
  }
  assert.match(readFileSync(join(folder, "LICENSE"), "utf8"), /Copyright \(c\) 2001, Dr Martin Porter[^]+Redistribution and use/);
  assert.equal(readdirSync(folder).length, Object.keys(STEMMERS).length + 3);
});
