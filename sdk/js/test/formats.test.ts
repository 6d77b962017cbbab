/** The readers of formats: JSON, safetensors, float16, ONNX, tokenizer.json. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { CorruptArtifactError, openTokenizer, PocketQueryError } from "pocketquery";
import { widen } from "../dist/bundle/float16.js";
import { isInteger, type Json, type JsonObject, parseJson, plain } from "../dist/json.js";
import { readOnnxModel } from "../dist/bundle/onnx_model.js";
import { byCodePoint, characterCount, repr } from "../dist/python_text.js";
import { parseMetadata, parseSafetensors, serializeSafetensors } from "../dist/bundle/safetensors.js";
import { read } from "./fixtures.js";

/** Numbers below `limit` that look drawn, the same at every run. */
function* drawn(limit: number, seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield (state >>> 8) % limit;
  }
}

function randomJson(next: () => number, depth: number): unknown {
  const kind = next() % (depth > 3 ? 4 : 6);
  if (kind === 0) return [null, true, false][next() % 3];
  if (kind === 1) return next() - 500;
  if (kind === 2) return (next() - 500) / 64;
  if (kind === 3) return String.fromCodePoint(0x20 + next(), 0x1f600 + (next() % 9), 0x22, 0x5c, next() % 32);
  const items = Array.from({ length: next() % 4 }, () => randomJson(next, depth + 1));
  return kind === 4 ? items : Object.fromEntries(items.map((item, i) => [`k${i}"\n`, item]));
}

test("JSON is read as JSON.parse reads it", () => {
  const numbers = drawn(1000, 1);
  for (let i = 0; i < 2000; i++) {
    const value = randomJson(() => numbers.next().value, 0);
    for (const text of [JSON.stringify(value), JSON.stringify(value, null, " \t")]) {
      assert.deepEqual(plain(parseJson(text)), JSON.parse(text));
    }
  }
});

test("what JSON.parse refuses is refused, and what it lets pass wrongly", () => {
  const text = '{"a": [1, -2.5e3, "x\\u00e9\\n"], "b": {"c": null, "d": true}}';
  for (let at = 0; at < text.length; at++) {
    for (const changed of [text.slice(0, at), text.slice(0, at) + text.slice(at + 1)]) {
      let expected: unknown = SyntaxError;
      try {
        expected = JSON.parse(changed) as unknown;
      } catch {}
      if (expected === SyntaxError) assert.throws(() => parseJson(changed), SyntaxError, changed);
      else assert.deepEqual(plain(parseJson(changed)), expected);
    }
  }
  for (const wrong of ['{"a":1,"a":1}', "1e400", "123456789012345678901", "[".repeat(65) + "]".repeat(65)]) {
    assert.throws(() => parseJson(wrong), SyntaxError);
  }
  const found = parseJson('{"a": 1, "b": 1.0, "c": 1e0, "d": true, "__proto__": 2, "1": [1, 2.0]}') as JsonObject;
  const integers = ["a", "b", "c", "d", "__proto__", "x"].map((name) => isInteger(found, name));
  assert.deepEqual(integers, [true, false, false, false, true, false]);
  const list = found.get("1") as Json[];
  assert.deepEqual([isInteger(list, 0), isInteger(list, 1)], [true, false]);
});

test("texts are written and ordered as Python does", () => {
  assert.equal(repr("it's"), '"it\'s"');
  assert.equal(repr("'\"\n\\é\x00\u2028\ud800🫠\u{e0001}"), "'\\'\"\\n\\\\é\\x00\\u2028\\ud800🫠\\U000e0001'");
  assert.deepEqual(["\u{10000}", "\uffff", "a", "ab", ""].sort(byCodePoint), ["", "a", "ab", "\uffff", "\u{10000}"]);
  assert.equal(characterCount("a🫠\ud800é"), 4);
});

test("every float16 is widened exactly", () => {
  const all = Uint16Array.from({ length: 1 << 16 }, (_, i) => i);
  for (const [bits, found] of widen(all).entries()) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const scale = 2 ** (Math.max(exponent, 1) - 25);
    const special = fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
    const expected = exponent === 31 ? special : sign * (fraction + (exponent > 0 ? 1024 : 0)) * scale;
    assert.ok(Object.is(found, expected), String(bits));
  }
});

test("safetensors are written in Python's bytes and read back", () => {
  for (const name of ["release", "unsigned", "elsewhere"]) {
    const data = Uint8Array.from(read(`${name}.safetensors`));
    const written = serializeSafetensors(parseSafetensors(data, name), parseMetadata(data, name));
    assert.deepEqual(written, data);
  }
});

test("safetensors that are cut or changed are refused or differ in values alone", () => {
  const data = Uint8Array.from(read("unsigned.safetensors"));
  for (let at = 0; at < data.length; at++) {
    assert.throws(() => parseSafetensors(data.subarray(0, at), "x"), CorruptArtifactError);
    const changed = data.slice();
    changed[at] = (changed[at] ?? 0) ^ 4;
    try {
      for (const [, { shape, bytes }] of parseSafetensors(changed, "x")) {
        assert.equal(bytes.length, 2 * shape.reduce((a, b) => a * b, 1));
      }
    } catch (error) {
      assert.ok(error instanceof CorruptArtifactError, String(error));
    }
  }
  const header = (text: string, body = 0): Uint8Array => {
    const length = Buffer.alloc(8);
    length.writeUInt32LE(text.length);
    return Buffer.concat([length, Buffer.from(text), Buffer.alloc(body)]);
  };
  const spec = (dtype: string, shape: string, offsets: string): string =>
    `{"a":{"dtype":"${dtype}","shape":${shape},"data_offsets":${offsets}}}`;
  const wrong: [Uint8Array, RegExp][] = [
    [header("[]"), /the header is not a JSON object/],
    [header(spec("BF16", "[1]", "[0,2]"), 2), /tensor 'a': dtype 'BF16', expected one of F64, F32/],
    [header(spec("toString", "[1]", "[0,2]"), 2), /dtype 'toString', expected one of/],
    [header(spec("F32", "[1.0]", "[0,4]"), 4), /shape .*, expected a list of integers not below 0/],
    [header(spec("F32", "[1]", "[0,4,4]"), 4), /data_offsets \(0, 4, 4\), expected \[begin, end\]/],
    [header(spec("F32", "[2]", "[0,4]"), 4), /data_offsets span 4 bytes, dtype and shape \[2\] need 8/],
    [header(spec("F32", "[1]", "[1,5]"), 5), /tensor 'a' begins at 1, expected 0; tensors may neither/],
    [header(spec("F32", "[1]", "[0,4]"), 5), /the tensors need 4 bytes, 5 are there/],
    [header(spec("BOOL", "[1]", "[0,1]").replace("}}", '},"__metadata__":{"x":1}}'), 1), /must map text/],
    [header('{"a":{"dtype":"F32"}}'), /expected exactly dtype, shape and data_offsets, found/],
    [header(spec("F64", "[1152921504606846976]", "[0,0]")), /need 9223372036854775808|need 9.2/],
  ];
  for (const [bytes, message] of wrong) assert.throws(() => parseSafetensors(bytes, "x"), message);
});

test("an ONNX model that is cut or changed never takes the reader away", () => {
  const model = Uint8Array.from(read("tiny/encoder.onnx"));
  const { inputs, outputs, slots } = readOnnxModel(model);
  assert.deepEqual(inputs.map(({ name, type }) => [name, type]), [
    ["input_ids", "tensor(int64)"],
    ["attention_mask", "tensor(int64)"],
  ]);
  assert.deepEqual(outputs, [{ name: "sentence_embedding", type: "tensor(float)", shape: ["batch", 16] }]);
  assert.deepEqual([...slots].map(([name, { shape }]) => [name, shape]), [
    ["adapter.layers.0.query.down", [2, 16]],
    ["adapter.layers.0.query.up", [16, 2]],
  ]);
  for (let at = 0; at < model.length; at += 3) {
    const changed = model.slice();
    changed[at] = (changed[at] ?? 0) ^ 0x81;
    for (const bytes of [model.subarray(0, at), changed]) {
      try {
        for (const [, { begin, end }] of readOnnxModel(bytes).slots) assert.ok(end <= bytes.length && begin <= end);
      } catch (error) {
        assert.ok(error instanceof RangeError || error instanceof TypeError, String(error));
      }
    }
  }
});

type Change = (document: Record<string, any>) => unknown;
const SPECIAL = { special: true, single_word: false, lstrip: false, rstrip: false, normalized: false };
const TOKENIZERS: [string, Change, RegExp][] = [
  ["model", (d) => (d["model"].type = "BPE"), /found a "model" of type BPE, expected type WordPiece; use the file a/],
  ["no model", (d) => delete d["model"], /found no "model", expected a "model" of type WordPiece/],
  ["pre-tokenizer", (d) => (d["pre_tokenizer"] = null), /found no "pre_tokenizer"/],
  ["normalizer", (d) => (d["normalizer"].type = "NFC"), /found a "normalizer" of type NFC/],
  ["flag", (d) => (d["normalizer"].lowercase = 1), /found "lowercase": 1 in "normalizer", expected a value of type bool/],
  ["accents", (d) => (d["normalizer"].strip_accents = "no"), /found "strip_accents": 'no' in "normalizer"/],
  ["id", (d) => (d["model"].vocab["sea"] = -1), /found the id -1 for 'sea', expected a whole number from 0 to 16777215/],
  ["fraction", (d) => (d["model"].vocab["sea"] = 1.5), /found the id 1.5 for 'sea'/],
  ["same id", (d) => (d["model"].vocab["sea"] = 0), /found two pieces with the same id/],
  ["unknown", (d) => (d["model"].unk_token = "x?"), /the unknown token 'x\?' missing from the vocabulary/],
  ["length", (d) => (d["model"].max_input_chars_per_word = 1001), /"max_input_chars_per_word": 1001, expected 0 to 1000/],
  ["added", (d) => (d["added_tokens"][0].id = 7), /found the added token '\[PAD\]' with id 7, expected id 0/],
  ["added shape", (d) => (d["added_tokens"] = [1]), /"added_tokens" of another shape/],
  ["added length", (d) => d["added_tokens"].push({ id: 0, content: "x".repeat(257), ...SPECIAL }), /an added token of 257 characters/],
  ["added empty", (d) => d["added_tokens"].push({ id: Object.keys(d["model"].vocab).length, content: "\u0300", ...SPECIAL, normalized: true }), /nothing is left of the added token/],
  ["processor", (d) => (d["post_processor"].type = "Roberta"), /a "post_processor" of type Roberta, expected TemplateProcessing or/],
  ["template", (d) => (d["post_processor"].single = []), /an incomplete "post_processor" \(0 places for the text\)/],
  ["special", (d) => (d["post_processor"].special_tokens = {}), /an incomplete "post_processor"/],
];

for (const [name, change, message] of TOKENIZERS) {
  test(`a tokenizer.json this package cannot follow is refused: ${name}`, () => {
    const document = JSON.parse(read("tiny/tokenizer.json").toString("utf8")) as Record<string, any>;
    change(document);
    const data = new TextEncoder().encode(JSON.stringify(document));
    assert.throws(() => openTokenizer("wordpiece", data, 24), (error: Error) => {
      assert.ok(error instanceof PocketQueryError);
      assert.match(error.message, message);
      return true;
    });
  });
}

test("a tokenizer has room for one piece at least", () => {
  const data = read("tiny/tokenizer.json");
  assert.throws(() => openTokenizer("wordpiece", data, 2), /max_length is 2, expected at least 3/);
  assert.deepEqual(openTokenizer("wordpiece", data, 3).encode("the sea").length, 3);
  assert.throws(() => openTokenizer("wordpiece", data, 24).tokens([99999]), /found the id 99999/);
});
