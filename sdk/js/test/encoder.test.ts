import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  ArtifactNotFoundError,
  CorruptArtifactError,
  InvalidInputError,
  SignatureError,
  SpaceMismatchError,
} from "pocketquery";
import { type Encoder, load, verify } from "pocketquery/node";
import { changedManifest, cosine, EXPECTED, FIXTURES, read, REFERENCE, TINY, tiny, type Vectors } from "./fixtures.js";

async function assertAgrees(encoder: Encoder, expected: Vectors): Promise<void> {
  assert.deepEqual(EXPECTED.texts.map((text) => encoder.tokenize(text)), expected.ids);
  const vectors = await encoder.encode(EXPECTED.texts);
  for (const [i, vector] of vectors.entries()) {
    assert.equal(vector.length, encoder.dimension);
    assert.ok(cosine(vector, expected.vectors[i] ?? []) > 0.9999, EXPECTED.texts[i]);
  }
  const queries = await encoder.encodeQuery(EXPECTED.texts.slice(0, 4), { truncateDim: 8 });
  for (const [i, query] of queries.entries()) {
    assert.equal(query.length, 8);
    assert.ok(cosine(query, expected.queries[i] ?? []) > 0.9999);
    assert.ok(Math.abs(Math.hypot(...query) - 1) < 1e-6);
  }
}

test("a truncated vector is normalised in float32, in the order of numpy's sums", async () => {
  const encoder = await load(TINY);
  const add = (left: number, right: number): number => Math.fround(left + right);
  for (const text of EXPECTED.texts) {
    const cut = (await encoder.encode(text)).slice(0, 12);
    const squares = [...cut.map((value) => value * value)];
    const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, ...rest] = squares;
    const eight = add(add(add(a, b), add(c, d)), add(add(e, f), add(g, h)));
    const norm = Math.fround(Math.sqrt(rest.reduce(add, eight)));
    const expected = cut.map((value) => value / norm);
    assert.deepEqual(await encoder.encode(text, { truncateDim: 12 }), expected);
    assert.deepEqual(await encoder.encode(text, { truncateDim: 12, normalize: false }), cut);
  }
  await encoder.close();
});

test("the tiny bundle encodes as in Python, from a folder, a zip and memory", async () => {
  for (const place of [TINY, join(FIXTURES, "tiny.zip"), tiny()]) {
    const encoder = await load(place, { publicKey: EXPECTED.key, verify: true });
    assert.equal(encoder.signedBy, EXPECTED.key_id);
    assert.equal(encoder.version, "1");
    assert.equal(encoder.spaceId, "space-0123456789abcdef0123456789abcdef");
    await assertAgrees(encoder, EXPECTED.tiny);
    await encoder.close();
  }
});

test("the reference bundle encodes as in Python and verifies", async () => {
  const report = await verify(REFERENCE);
  assert.equal(report.name, "reference-3x384");
  assert.equal(report.signedBy, null);
  assert.ok(report.golden.leastCosine > 0.9999 && report.golden.texts > 5);
  const encoder = await load(REFERENCE);
  await assertAgrees(encoder, EXPECTED.reference);
  await encoder.close();
});

const folder = process.env["POCKETQUERY_EXPECTED"] ?? "";
test("vectors of Python, to the bit", { skip: folder === "" && "no expectations" }, async () => {
  const texts = JSON.parse(readFileSync(join(folder, "vectors.json"), "utf8")) as string[];
  const expected = new Float32Array(new Uint8Array(readFileSync(join(folder, "vectors.f32"))).buffer);
  const encoder = await load(REFERENCE);
  const vectors = await encoder.encode(texts);
  await encoder.close();
  const same = vectors.filter((vector, row) =>
    vector.every((value, i) => value === expected[row * vector.length + i]),
  );
  assert.equal(same.length, texts.length);
});

test("a vector does not depend on its company", async () => {
  const encoder = await load(TINY);
  const [first] = await encoder.encode(["the sea", "how do plants make sugar"]);
  assert.deepEqual(first, await encoder.encode("the sea"));
  const at_once = await Promise.all(EXPECTED.texts.map((text) => encoder.encode(text)));
  assert.deepEqual(at_once, await encoder.encode(EXPECTED.texts));
  assert.deepEqual(await encoder.encode([]), []);
  await encoder.close();
});

test("adapters are swapped as in Python, and back", async () => {
  const encoder = await load(TINY, { publicKey: EXPECTED.key });
  const before = await encoder.encode("the sea");
  const own = encoder.adapter;
  const [during] = await Promise.all([
    encoder.encode(EXPECTED.texts), // begun with the old adapter, it ends with it
    encoder.swapAdapter(read("release.safetensors")),
  ]);
  assert.ok(cosine(during[2] ?? [], EXPECTED.tiny.vectors[2] ?? []) > 0.9999);
  assert.equal(encoder.version, "2");
  await assertAgrees(encoder, EXPECTED.swapped);
  const loaded = await load(TINY, { adapter: read("release.safetensors") });
  assert.deepEqual(await loaded.encode(EXPECTED.texts), await encoder.encode(EXPECTED.texts));
  await loaded.close();
  await encoder.swapAdapter(null);
  assert.deepEqual(await encoder.encode("the sea"), before);
  await encoder.swapAdapter(own);
  assert.equal(encoder.version, "1+local");
  assert.deepEqual(await encoder.encode("the sea"), before);
  await encoder.close();
});

test("files in Buffers, which begin anywhere, are read as they are and left so", async () => {
  const sound = read("tiny/encoder.onnx");
  const plain = changedManifest(({ files }) => delete files["adapter.safetensors"]);
  for (const changes of [{}, { "manifest.json": plain, "adapter.safetensors": null }]) {
    for (const offset of [0, 4096]) {
      const buffer = Buffer.concat([Buffer.alloc(offset), sound]).subarray(offset);
      const source = tiny({ ...changes, "encoder.onnx": buffer });
      const encoder = await load(source);
      const before = await encoder.encode("the sea");
      const tensors = new Map(encoder.adapter);
      if (tensors.size === 0) for (const [name, tensor] of (await load(TINY)).adapter) tensors.set(name, tensor);
      for (const { data } of tensors.values()) data.fill(0.5);
      await encoder.swapAdapter(tensors);
      assert.notDeepEqual(await encoder.encode("the sea"), before);
      await encoder.swapAdapter(null);
      assert.deepEqual(await encoder.encode("the sea"), before);
      await encoder.close();
      assert.deepEqual(buffer, sound);
      const again = await load(source);
      assert.deepEqual(await again.encode("the sea"), before);
      await again.close();
    }
  }
});

test("adapters that do not fit are refused, and the old one stays", async () => {
  const encoder = await load(TINY);
  const before = await encoder.encode("the sea");
  const publicKey = EXPECTED.key;
  const release = read("release.safetensors");
  const refused: [Uint8Array, object, new (m: string) => Error, RegExp][] = [
    [read("unsigned.safetensors"), { publicKey }, SignatureError, /is not signed, expected a sig/],
    [release, { publicKey: EXPECTED.other_key }, SignatureError, /was not made by the key/],
    [read("elsewhere.safetensors"), {}, SpaceMismatchError, /is of space space-elsewhere, the b/],
    [read("another.safetensors"), {}, CorruptArtifactError, /is for the encoder.onnx with SHA-256/],
    [release.subarray(0, 300), {}, CorruptArtifactError, /the file is truncated/],
    [new Uint8Array(100_001), {}, CorruptArtifactError, /more than 100000 bytes/],
  ];
  for (const [data, options, kind, message] of refused) {
    await assert.rejects(encoder.swapAdapter(data, options), (error: Error) => {
      assert.ok(error instanceof kind, String(error));
      assert.match(error.message, message);
      return true;
    });
  }
  for (let at = 0; at < release.length; at += 7) {
    const changed = Uint8Array.from(release);
    changed[at] = (changed[at] ?? 0) ^ 1;
    await assert.rejects(encoder.swapAdapter(changed), { name: /Error$/ });
  }
  const tensors = encoder.adapter;
  tensors.delete("adapter.layers.0.query.up");
  await assert.rejects(encoder.swapAdapter(tensors), /lacks the tensors adapter.layers.0.query.up/);
  const wide = new Map([["adapter.layers.0.query.up", { shape: [2], data: new Float32Array(2) }]]);
  await assert.rejects(encoder.swapAdapter(wide), CorruptArtifactError);
  await assert.rejects(encoder.swapAdapter({} as never), InvalidInputError);
  assert.equal(encoder.version, "1");
  assert.deepEqual(await encoder.encode("the sea"), before);
  await encoder.close();
});

test("what cannot be encoded is refused with Python's words", async () => {
  const encoder = await load(TINY);
  const half = "🫠a\ud800b";
  const cases: [() => Promise<unknown>, RegExp][] = [
    [() => encoder.encode(half), /^the text has the lone surrogate U\+D800 at position 2, which/],
    [() => encoder.encode(["a", "\udc00"]), /^sentences\[1\] has the lone surrogate U\+DC00 at pos/],
    [() => encoder.encode(["a", 1] as never), /^sentences\[1\] is a number, expected a string/],
    [() => encoder.encode(["a", , "b"] as never), /^sentences\[1\] is undefined, expected a string/],
    [() => encoder.encode(null as never), /^sentences is null, expected a string or a list/],
    [() => encoder.encode("a", { promptName: "x" }), /knows: 'document', 'query'; pass one of them/],
    [() => encoder.encode("a", { truncateDim: 17 }), /truncateDim is 17, expected a whole number fr/],
    [() => encoder.encode("a", { truncateDim: 0.5 }), /expected a whole number from 1 to 16/],
  ];
  for (const [call, message] of cases) {
    await assert.rejects(call, (error: Error) => {
      assert.ok(error instanceof InvalidInputError);
      assert.match(error.message, message);
      return true;
    });
  }
  const [said, unsaid] = [await encoder.encodeQuery("a", { promptName: null as never }), await encoder.encodeQuery("a")];
  assert.deepEqual(said, unsaid); // as in Python, where None is the default
  await encoder.close();
  await assert.rejects(encoder.encode("a"), /the encoder 'tiny' was closed; load it again/);
  await assert.rejects(encoder.swapAdapter(null), InvalidInputError);
});

test("a list's encoding can be watched and ended", async () => {
  const encoder = await load(TINY);
  const seen: [number, number][] = [];
  const onProgress = (...now: [number, number]): void => void seen.push(now);
  await encoder.encode(["a", "b", "c"], { onProgress });
  assert.deepEqual(seen, [[1, 3], [2, 3], [3, 3]]);
  const ended = new AbortController();
  const aborting = encoder.encode(["a", "b"], { signal: ended.signal, onProgress: () => ended.abort() });
  await assert.rejects(aborting, { name: "AbortError" });
  await encoder.encode("a", { onProgress: () => assert.fail("one text is no list") });
  await encoder.close();
});

test("loading can be watched and ended", async () => {
  const seen = new Set<string>();
  const onProgress = (now: { file: string; bytes: number; size: number | null }): void => {
    if (now.bytes === now.size) seen.add(now.file);
  };
  await (await load(TINY, { onProgress })).close();
  assert.deepEqual([...seen].sort(), ["adapter.safetensors", "encoder.onnx", "tokenizer.json"]);
  await assert.rejects(load(TINY, { signal: AbortSignal.abort() }), { name: "AbortError" });
  await assert.rejects(load(join(FIXTURES, "nothing")), ArtifactNotFoundError);
  await assert.rejects(load(FIXTURES), /found no manifest.json in it, expected a bundle/);
});
