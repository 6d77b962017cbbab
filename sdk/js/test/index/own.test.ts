/** What a device indexes itself: without vectors, and without any publisher's files. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { InvalidInputError, MemorySource, type Progress, SpaceMismatchError } from "pocketquery";
import { type Index, MemoryChanges, openIndex, type QueryEncoder } from "pocketquery/index";
import { type Encoder, load } from "pocketquery/node";
import { cosine, TINY } from "../fixtures.js";
import { files, source } from "./data.js";

const NOTES = [
  { id: "garden", text: "In March I planted beans and peas.", metadata: { title: "Garden", year: 2025 } },
  { id: "sea", text: "The sea was cold.", metadata: { year: 2024 } },
];

async function withEncoder(work: (encoder: Encoder) => Promise<void>): Promise<void> {
  const encoder = await load(TINY);
  try {
    await work(encoder);
  } finally {
    await encoder.close();
  }
}

test("an index begins on the device, is found again, and holds what Python's encoder would give", async () => {
  await withEncoder(async (encoder) => {
    const changes = new MemoryChanges();
    const seen: string[] = [];
    const index = await openIndex(null, { encoder: Promise.resolve(encoder), changes });
    assert.equal(index.size, 0);
    assert.deepEqual(await index.search("beans"), []);
    await index.add(NOTES, null, { onProgress: (done, documents) => void seen.push(`${done}/${documents}`) });
    assert.deepEqual(seen, ["1/2", "2/2"]);
    assert.equal((await index.search("beans", { mode: "lexical" }))[0]?.id, "garden");
    const again = await openIndex(null, { encoder, changes });
    assert.equal(again.size, 2);
    for (const [id, text] of [["garden", "Garden In March I planted beans and peas."], ["sea", "The sea was cold."]]) {
      const own = await encoder.encodeDocument(text ?? "");
      const row = again.vectors().rowOf(id ?? "") ?? assert.fail();
      assert.ok(cosine(again.vectors().vectors([row]), own) > 0.999);
      assert.equal((await again.search(own, { k: 1 }))[0]?.id, id);
    }
    assert.deepEqual((await again.search("cold", { filter: { year: 2024 } })).map(({ id }) => id), ["sea"]);
    assert.equal(await again.delete(["sea"]), 1);
    await again.compact();
    assert.equal((await openIndex(null, { encoder, changes })).size, 1);
    const other: QueryEncoder = { spaceId: "space-" + "0".repeat(32), dimension: 16, encodeQuery: () => new Float32Array(16) };
    await assert.rejects(openIndex(null, { encoder: other, changes }), SpaceMismatchError);
  });
});

test("documents are prompted as such, and what changes meanwhile does not come in", async () => {
  await withEncoder(async (encoder) => {
    const prompt = encoder.manifest.prompts.get("document") ?? assert.fail();
    const vector = await encoder.encodeDocument("x");
    assert.deepEqual(vector, await encoder.encode("x", { prompt }));
    assert.deepEqual(await encoder.encodeDocument("x", { prompt: "" }), await encoder.encode("x", { prompt: "" }));
    const index = await openIndex(null, { encoder, changes: new MemoryChanges() });
    const mine = { id: "a", text: "the sea", metadata: {} };
    const adding = index.add([mine]);
    mine.text = "something else";
    await adding;
    assert.equal(index.get("a")?.text, "the sea");
  });
});

test("what cannot be added without vectors is refused, and nothing is stored", async () => {
  await withEncoder(async (encoder) => {
    const changes = new MemoryChanges();
    const index = await openIndex(null, { encoder, changes });
    const refused: [() => Promise<unknown>, RegExp][] = [
      [() => index.add([NOTES[0]!, NOTES[0]!]), /^the id 'garden' is in the index already/],
      [() => index.add([{ id: "a", text: "\ud800" }]), /^the text of documents\[0\] \('a'\) has the lone surrogate/],
      [() => index.add("notes" as never), /^documents is a string, expected a list/],
      [() => index.add(NOTES, []), /^2 documents came with 0 vectors/],
      [() => index.add(NOTES, null, null as never), /^the options: found null, expected an object/],
      [async () => (await openIndex(null, { encoder })).add(NOTES), /for reading only/],
      [() => openIndex(null, { changes }), /needs an encoder with spaceId and dimension/],
      [() => openIndex(null, { encoder, deltas: [new Uint8Array()] }), /are about a publisher's files/],
      [() => openIndex(null, { encoder, publicKey: "00" }), /are about a publisher's files/],
      [async () => (await openIndex(source("base"), { changes })).add(NOTES), /^documents came without vectors, and the index/],
    ];
    for (const [call, message] of refused) {
      await assert.rejects(call, (error: Error) => error instanceof InvalidInputError && message.test(error.message));
    }
    const hole = [NOTES[0]!, , NOTES[1]!] as typeof NOTES;
    await assert.rejects(index.add(hole), /^InvalidInputError: documents\[1\] is undefined/);
    const aborted = new AbortController();
    const ended = index.add(NOTES, undefined, { signal: aborted.signal, onProgress: () => aborted.abort() });
    await assert.rejects(ended, { name: "AbortError" });
    assert.equal(index.size, 0);
    assert.equal((await changes.read()).length, 0);
  });
});

test("a long run of blanks within a text costs nothing", async () => {
  await withEncoder(async (encoder) => {
    const index = await openIndex(null, { encoder, changes: new MemoryChanges() });
    const text = `a${" ".repeat(1_000_000)}b${"\n".repeat(1_000_000)}`; // minutes, where each blank is tried anew
    await index.add([{ id: "blanks", text }], [Float32Array.from({ length: encoder.dimension }, () => 1)]);
    assert.equal(index.get("blanks")?.text, text);
  });
});

test("an encoder that comes to nothing is heard, whatever ends the opening", async () => {
  const encoder = (): Promise<QueryEncoder> => Promise.reject(new Error("no encoder"));
  await assert.rejects(openIndex(source("base"), { encoder: encoder(), signal: AbortSignal.abort() }), { name: "AbortError" });
  await assert.rejects(openIndex(null, { encoder: encoder(), deltas: [new Uint8Array()] }), InvalidInputError);
  await assert.rejects(openIndex(source("base"), { encoder: encoder(), check: "banana" as never }), InvalidInputError);
  await new Promise((resolve) => setTimeout(resolve)); // a rejection that nobody hears fails this file
});

test("opening can be watched and ended", async () => {
  const seen = new Map<string, Progress>();
  const onProgress = (now: Progress): void => void seen.set(now.file, now);
  await openIndex(source("base"), { onProgress });
  for (const [file, bytes] of files("base")) {
    if (/^(?:index.json|documents.sqlite|vectors.*)$/.test(file)) assert.equal(seen.get(file)?.bytes, bytes.length);
  }
  assert.ok(seen.size >= 3);
  const aborted = new AbortController();
  const place = source("base");
  const opening: Promise<Index> = openIndex(place, { signal: aborted.signal, onProgress: () => aborted.abort() });
  await assert.rejects(opening, { name: "AbortError" });
  await assert.rejects(openIndex(place, { signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("what is no place, no options or no onnxruntime is an error that says what was expected", async () => {
  const index = await openIndex(source("base"));
  await withEncoder(async (encoder) => {
    const refused: [() => Promise<unknown>, RegExp][] = [
      [() => openIndex("index/" as never), /^the index is a string, expected a FileSource: new FetchSource/],
      [() => openIndex(undefined as never), /^the index is undefined, expected a FileSource/],
      [() => openIndex(source("base"), null as never), /^the options: found null/],
      [() => index.search("x", null as never), /^the options: found null/],
      [() => openIndex(source("base"), { publickey: "00" } as never), /found 'publickey', expected some of: encoder/],
      [() => openIndex(source("base"), { check: "banana" as never }), /^check is 'banana', expected one of \('hashes'/],
      [() => index.search("x", { filtre: {} } as never), /found 'filtre', expected some of: k, mode, filter, vector/],
      [() => load(TINY, { publickey: "00" } as never), /found 'publickey'/],
      [() => encoder.encode("x", { prompt_name: "query" } as never), /found 'prompt_name'/],
      [async () => index.vectors().vectors([99_999]), /^found the row 99999, expected one of/],
      [() => load(5 as never), /^the place is a number, expected a FileSource/],
      [() => load({} as never), /^the place is a Object, expected a FileSource/],
      [() => load(null as never), /^the place is null/],
      [() => load(TINY, null as never), /^the options: found null/],
      [() => load(TINY, { onnxruntime: {} as never }), /^onnxruntime is a Object without InferenceSession/],
      [() => load(new MemorySource({}), { onnxruntime: 1 as never }), /^onnxruntime is a number without/],
      [() => encoder.encode("x", null as never), /^the options: found null/],
      [() => encoder.encodeQuery("x", [] as never), /^the options: found a Array/],
    ];
    for (const [call, message] of refused) {
      await assert.rejects(call, (error: Error) => {
        assert.match(error.message, message);
        return error instanceof InvalidInputError;
      });
    }
  });
});
