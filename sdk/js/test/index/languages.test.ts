/** What the built-in encoder reads, what becomes of other queries, and results in some languages. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CorruptArtifactError, InvalidInputError } from "pocketquery";
import { MemoryChanges, openIndex } from "pocketquery/index";
import { type Encoder, load } from "pocketquery/node";
import { parseManifest } from "../../dist/bundle/manifest.js";
import { changedManifest } from "../fixtures.js";

const NOTES = [
  { id: "tea", text: "Green tea: 80 degrees.", metadata: { language: "en" } },
  { id: "zug", text: "Der Zug fährt um sieben.", metadata: { language: "de-AT" } },
  { id: "поезд", text: "Поезд отправляется в семь часов.", metadata: { language: "ru" } },
  { id: "緑茶", text: "緑茶は八十度のお湯で入れる。", metadata: { language: "ja" } },
];

async function withEncoder(work: (encoder: Encoder) => Promise<void>): Promise<void> {
  const encoder = await load();
  try {
    await work(encoder);
  } finally {
    await encoder.close();
  }
}

test("the built-in encoder says that it reads English, and which texts", async () => {
  await withEncoder(async (encoder) => {
    assert.deepEqual(encoder.languages, ["en"]);
    const read = ["when does the train leave", "Łukasiewicz", "TNF-α inhibitors", "404", "mujhe chai pasand hai"];
    const unread = ["когда поезд", "緑茶", "Nguye\u0302\u0303n", "iPhone 15 купить", "🎉", "\u{5e123}", "α"];
    for (const text of read) assert.ok(encoder.reads(text), text);
    for (const text of unread) assert.ok(!encoder.reads(text), text);
  });
});

test("a query that it does not read is searched by words alone", async () => {
  await withEncoder(async (encoder) => {
    const index = await openIndex(null, { encoder, changes: new MemoryChanges() });
    await index.add(NOTES);
    const [hits, words] = [await index.search("семь поезд"), await index.search("семь поезд", { mode: "lexical" })];
    assert.deepEqual(hits.map(({ id, bm25 }) => [id, bm25]), words.map(({ id, bm25 }) => [id, bm25]));
    assert.deepEqual(hits.map(({ id, cosine }) => [id, cosine]), [["поезд", null]]);
    assert.ok(hits[0]!.score > 0 && hits[0]!.score <= 1);
    assert.deepEqual(await index.search("🎉"), []);
    assert.equal((await index.search("how hot for tea")).length, NOTES.length);
    assert.notEqual((await index.search("семь", { mode: "dense" }))[0]?.cosine, null);
  });
});

test("results in some languages", async () => {
  await withEncoder(async (encoder) => {
    const index = await openIndex(null, { encoder, changes: new MemoryChanges() });
    await index.add(NOTES);
    const found = async (...languages: string[]): Promise<string[]> =>
      (await index.search("tea train", { languages })).map(({ id }) => id).sort();
    assert.deepEqual(await found("de", "en"), ["tea", "zug"]);
    assert.deepEqual(await found("de-DE"), []);
    for (const capitals of ["DE", "DE-at"]) assert.deepEqual(await found(capitals), ["zug"]);
    const typed = async (query: string, mode: "hybrid" | "lexical"): Promise<number> => (await index.search(query, { prefix: true, mode })).length;
    for (const nothing of ["", " ", '"', "-tea", '+"']) assert.equal((await typed(nothing, "hybrid")) + (await typed(nothing, "lexical")), 0);
    assert.ok((await typed('"te', "hybrid")) > 0);
    await assert.rejects(index.search('"'), InvalidInputError);
    for (const wrong of [["German"], [], [3 as unknown as string]]) await assert.rejects(found(...wrong), InvalidInputError);
  });
});

test("languages of a manifest are codes", () => {
  const manifest = (languages: unknown): Uint8Array => changedManifest((values) => (values["languages"] = languages));
  assert.deepEqual(parseManifest(manifest(["en", "zh-Hant-TW"])).languages, ["en", "zh-Hant-TW"]);
  for (const wrong of ["en", null, [1], ["English"], ["EN"], [""]]) {
    assert.throws(() => parseManifest(manifest(wrong)), CorruptArtifactError);
  }
});
