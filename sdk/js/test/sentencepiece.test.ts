import assert from "node:assert/strict";
import { test } from "node:test";
import { CorruptArtifactError, InvalidInputError, openTokenizer } from "pocketquery";
import { EXPECTED, read } from "./fixtures.js";

const LAYOUT = new Map([["layout", "xlm-roberta"]]);

for (const [name, { texts, ids }] of Object.entries(EXPECTED.models)) {
  const data = read(`${name}.model`);

  test(`${name}: ids as in Python`, () => {
    const tokenizer = openTokenizer("sentencepiece", data, 64, LAYOUT);
    assert.deepEqual(texts.map((text) => tokenizer.encode(text)), ids);
    const passing = Buffer.from(data); // whose bytes are soon something else's
    const later = openTokenizer("sentencepiece", passing, 64, LAYOUT);
    passing.fill(0);
    assert.deepEqual(texts.map((text) => later.encode(text)), ids);
    for (const found of ids) assert.equal(tokenizer.tokens(found).length, found.length);
  });

  test(`${name}: what is no model is refused, wherever it is cut`, () => {
    for (let end = 0; end < data.length; end += 499) {
      try {
        openTokenizer("sentencepiece", data.subarray(0, end), 64, LAYOUT).encode("the sea");
      } catch (error) {
        assert.ok(error instanceof CorruptArtifactError, String(error));
      }
    }
  });
}

test("options and lengths that do not fit are refused", () => {
  const data = read("unigram.model");
  const open = (options: [string, string | number][], length = 64) =>
    openTokenizer("sentencepiece", data, length, new Map(options));
  assert.throws(() => open([["layout", "other"]]), InvalidInputError);
  assert.throws(() => open([["colour", "red"]]), /tokenizer options \['colour'\], which this kind/);
  assert.throws(() => open([["known_pieces", 2]]), /known_pieces is 2, expected a whole number from 4/);
  assert.throws(() => open([], 2), /max_length is 2, expected at least 3: the special tokens and/);
  assert.throws(() => openTokenizer("other", data, 64), /expected "wordpiece" or "sentencepiece"/);
});
