/** The pieces a search is made of, against Python's numbers or a slow twin. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Encoder } from "pocketquery";
import { CorruptArtifactError, InvalidInputError } from "pocketquery";
import { openIndex, type QueryEncoder } from "pocketquery/index";
import { analyzed } from "../../dist/index/added.js";
import { best, ranked } from "../../dist/index/vectors/best.js";
import { Analyzer } from "../../dist/words/analyzer.js";
import { loadProgram } from "../../dist/words/languages.js";
import { compileFilter } from "../../dist/index/filters.js";
import { comparable, parseExactly, parseMetadata } from "../../dist/index/metadata.js";
import { integerMatrix } from "../../dist/index/vectors/integer_product.js";
import { pairwiseSum, roundHalfEven } from "../../dist/index/vectors/numbers.js";
import { quantize, QueryVector, unitVector, Vectors, withoutVector } from "../../dist/index/vectors/vectors.js";
import { DIMENSION, drawer, EXPECTED, source } from "./data.js";

test("a vector's row is Python's, bit by bit", async () => {
  const vectors = EXPECTED.changes.flatMap((change) => change.vectors ?? []);
  const documents = EXPECTED.changes.flatMap((change) => change.add ?? []);
  const rows: Uint8Array[] = [];
  for (const [i, vector] of vectors.entries()) {
    const row = quantize(unitVector(vector, DIMENSION, "it"));
    rows.push((await analyzed(new Analyzer("english", loadProgram), documents[i]!, row)).vector);
  }
  assert.deepEqual(Buffer.concat(rows), Buffer.from(EXPECTED.rows, "base64"));
  const placed = ["a", "42", "ab", "日", "я", "ß", "½", "👍", "", "the bridge was built anew"];
  const short = documents.flatMap(({ id, text }, i) => (id.startsWith("short") || id === "d1" ? [[text, rows[i]!] as const] : []));
  const missing = short.filter(([, row]) => row.every((byte, at) => byte === (at < DIMENSION ? 128 : 0)));
  assert.deepEqual(missing.map(([text]) => text), ["", "\u200b\u00ad \x00", "-", "...", "=====", "a", "É", "7"]);
  assert.deepEqual(short.filter((one) => !missing.includes(one)).map(([text]) => text).sort(), placed.sort());
});

test("a row without a scale has codes of zero alone", () => {
  const vectors = new Vectors(DIMENSION);
  const row = withoutVector(DIMENSION + 4);
  vectors.append(row, "file");
  assert.deepEqual(vectors.search(new QueryVector(new Float32Array(DIMENSION).fill(1)), 5).rows, new Uint32Array());
  assert.throws(() => vectors.append(row.fill(127, 0, 1), "file"), CorruptArtifactError);
});

test("a mean is numpy's, rounded at every step", () => {
  for (const [values, mean] of EXPECTED.means) {
    const sum = pairwiseSum(Float32Array.from(values), Math.fround);
    assert.equal(Math.fround(sum / values.length), mean);
  }
  assert.deepEqual([0.5, 1.5, 2.5, -0.5, -1.5, 2.4, -2.6].map(roundHalfEven), [0, 2, 2, 0, -2, 2, -3]);
});

test("the product is exact with SIMD and without, whatever the sizes", () => {
  const draw = drawer(3);
  for (const width of [1, 4, 15, 16, 17, 31, 100, 388]) {
    const pieces = [0, 1, 3, 4, 5, 64].map((count) =>
      Uint8Array.from({ length: count * width }, () => draw() * 256),
    );
    const all = Uint8Array.from(pieces.flatMap((piece) => [...piece]));
    for (const extreme of [64, -64, 0]) {
      const vector = Int8Array.from({ length: width }, () => extreme || draw() * 129 - 64);
      const expected = Array.from({ length: all.length / width }, (_, row) =>
        vector.reduce((sum, value, i) => sum + value * all[row * width + i]!, 0),
      );
      for (const simd of [true, false]) {
        const matrix = integerMatrix(width, simd);
        for (const piece of pieces) {
          matrix.append(piece);
          matrix.products(vector); // what it leaves behind is not added to
        }
        assert.deepEqual([...matrix.products(vector)], expected);
        assert.deepEqual(matrix.rows, all);
      }
    }
  }
});

test("SIMD is used here", () => {
  assert.notEqual(integerMatrix(8).constructor, integerMatrix(8, false).constructor);
});

test("the best are the highest, of equal ones the first", () => {
  const draw = drawer(4);
  for (let round = 0; round < 500; round++) {
    const scores = Float64Array.from({ length: draw() * 60 }, () => Math.floor(draw() * 8) - 4);
    const allowed = draw() < 0.5 ? undefined : Uint8Array.from(scores, () => (draw() < 0.5 ? 1 : 0));
    const above = draw() < 0.5 ? -Infinity : 0;
    const k = 1 + Math.floor(draw() * 70);
    const expected = [...scores.keys()]
      .filter((row) => scores[row]! > above && (!allowed || allowed[row]))
      .sort((a, b) => scores[b]! - scores[a]! || a - b)
      .slice(0, k);
    const found = best(scores, k, allowed, above);
    assert.deepEqual([...found], [...expected].sort((a, b) => a - b));
    const order = ranked(found, Float32Array.from(found, (row) => scores[row]!), k);
    assert.deepEqual([...order.rows], expected);
  }
});

test("a search finds the same with SIMD and without, and whatever it was filled by", () => {
  const draw = drawer(6);
  const rows = Array.from({ length: 300 }, () =>
    quantize(unitVector(Array.from({ length: 33 }, () => draw() - 0.5), 33, "it")),
  );
  const whole = new Vectors(33);
  whole.append(Buffer.concat(rows), "it");
  const single = new Vectors(33, false);
  for (const row of rows) single.append(row, "it");
  for (let round = 0; round < 50; round++) {
    const query = unitVector(Array.from({ length: 33 }, () => draw() - 0.5), 33, "it");
    assert.deepEqual(whole.search(new QueryVector(query), 10), single.search(new QueryVector(query), 10));
  }
});

test("a filter's bounds are Python's", () => {
  const nested = (depth: number): object => (depth ? { $not: nested(depth - 1) } : { a: 1 });
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, i]));
  const loop: Record<string, unknown> = {};
  loop["$not"] = loop;
  for (const fine of [nested(10), many(300), { a: { $in: Array.from({ length: 99_000 }, () => 1) } }]) {
    compileFilter(fine);
  }
  const wrong = [
    nested(11),
    many(301),
    { $or: [many(300), many(201)] },
    { a: { $in: Array.from({ length: 100_001 }, () => 1) } },
    { a: "x".repeat((1 << 22) + 1) },
    loop,
    { a: Symbol("a") },
    { a: undefined },
    { a: { $in: new Set([1]) } },
    new Map([["a", 1]]),
    { "half\ud800": 1 },
    { a: "half\ud800" },
    null,
  ];
  for (const filter of wrong) assert.throws(() => compileFilter(filter), InvalidInputError);
});

test("metadata with half of a character is damage, whole ones and backslashes are none", () => {
  const sound = String.raw`{"a": ["\\ud800", "\ud83d\ude00"], "\u00e9": 9007199254740993}`;
  assert.deepEqual(parseMetadata(sound, "it"), JSON.parse(sound));
  assert.deepEqual(comparable(parseExactly(sound, "it")["\u00e9"]), [9007199254740993n]);
  const last = String.raw`{"a": "\ud800", "a": "b"}`; // as in Python, it alone counts
  assert.deepEqual(parseMetadata(last, "it"), { a: "b" });
  for (const half of [
    String.raw`{"a": [{"b": "\uDBFFx"}]}`,
    String.raw`{"a": {"\udc00": 1}}`,
    String.raw`{"a": "\ud800", "b": 9007199254740993}`,
  ]) {
    for (const parse of [parseMetadata, parseExactly]) {
      assert.throws(() => parse(half, "it"), /^CorruptArtifactError: it is damaged: a document's metadata is no JSON object/);
    }
  }
});

test("a query that cannot be asked is refused", async () => {
  const index = await openIndex(source("base"));
  const vector = new Float32Array(DIMENSION).fill(1);
  const wrong: [unknown, object][] = [
    ["", {}], [" \x1c\u3000", {}], ["half \ud800", {}], ["words", {}], ["words", { mode: "dense" }],
    ["words", { mode: "lexical", k: 0 }], ["words", { mode: "lexical", k: 1.5 }],
    ["words", { mode: "other" }], [vector, { mode: "hybrid" }], [vector, { mode: "lexical" }],
    [vector, { vector }], [vector.subarray(1), {}], [new Float32Array(DIMENSION), {}],
    [new Float32Array(DIMENSION).fill(Infinity), {}], [null, {}], [7, {}], [["1"], {}],
    [BigInt64Array.of(1n), {}], ["words", { mode: "lexical", filter: { $odd: 1 } }],
  ];
  for (const [query, options] of wrong) {
    await assert.rejects(index.search(query as string, options), InvalidInputError);
  }
  assert.throws(() => index.get(3 as never), InvalidInputError);
});

test("a text is encoded where its mode needs it, and hybrid by default", async () => {
  const asked: string[] = [];
  const encoder: QueryEncoder = {
    spaceId: "space-of-tests",
    encodeQuery: async (text) => {
      asked.push(text);
      return new Float32Array(DIMENSION).fill(1);
    },
  };
  const index = await openIndex(source("base"), { encoder: Promise.resolve(encoder) });
  const vector = new Float32Array(DIMENSION).fill(1);
  assert.deepEqual(await index.search("bridge"), await index.search("bridge", { mode: "hybrid", vector }));
  assert.deepEqual(await index.search(vector), await index.search("bridge", { mode: "dense" }));
  await index.search("bridge", { mode: "lexical" });
  assert.deepEqual(asked, ["bridge", "bridge"]);
  assert.equal((await index.search("bridge")).length, 10);
});

/** The package's encoder is one an index takes. */
export const takes = (encoder: Encoder): QueryEncoder => encoder;
