/** Which texts have letters that languages do not use, as conformance/words has it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { hasUnreadLetters, RANGES, WRITTEN } from "../../dist/words/scripts.js";
import { CONFORMANCE } from "../fixtures.js";

interface Scripts {
  readonly ranges: string;
  readonly written: string;
  readonly cases: readonly (readonly [codes: string, text: string, unread: boolean])[];
}

test("the same texts are unread as in Python", () => {
  const data = gunzipSync(readFileSync(join(CONFORMANCE, "words", "scripts.json.gz")));
  const { ranges, written, cases } = JSON.parse(data.toString("utf8")) as Scripts;
  assert.equal(RANGES.trim(), ranges.trim());
  assert.equal(WRITTEN.trim(), written.trim());
  for (const [codes, text, unread] of cases) assert.equal(hasUnreadLetters(text, codes.split(" ")), unread, `${codes}: ${text}`);
});
