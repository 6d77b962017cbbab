/** The tokenizers held to Python's: `POCKETQUERY_EXPECTED` names the folder that
 * `python -m tests.sdk.javascript_expectations FOLDER` wrote; skipped without it. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openTokenizer } from "../dist/tokenizer/open_tokenizer.js";

interface Case {
  kind: string;
  max_length: number;
  options: Record<string, string | number>;
  vocabulary_size: number;
  unknown_id: number;
  texts: string[];
  ids: number[][];
}

const folder = process.env["POCKETQUERY_EXPECTED"] ?? "";
const names = folder
  ? readdirSync(folder).filter((name) => name.endsWith(".tokenizer")).map((name) => name.slice(0, -10))
  : [];

test("ids of Python", { skip: folder === "" && "POCKETQUERY_EXPECTED is not set" }, async (t) => {
  for (const name of names) {
    await t.test(name, () => {
      const data = readFileSync(join(folder, `${name}.tokenizer`));
      const expected = JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8")) as Case;
      const options = new Map(Object.entries(expected.options));
      const tokenizer = openTokenizer(expected.kind, data, expected.max_length, options);
      assert.equal(tokenizer.vocabularySize, expected.vocabulary_size);
      assert.equal(tokenizer.unknownId, expected.unknown_id);
      const differing = expected.texts.filter(
        (text, i) => tokenizer.encode(text).join() !== (expected.ids[i] ?? []).join(),
      );
      const shown = differing.slice(0, 3).map((text) => text.slice(0, 100));
      assert.deepEqual(shown, [], `${differing.length} of ${expected.texts.length} differ`);
    });
  }
});
