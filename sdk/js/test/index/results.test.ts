/** Filters, facets, groups and snippets are Python's: conformance/results.json.gz. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { InvalidInputError } from "pocketquery";
import { facets, fields, type Index, MemoryChanges, openIndex, snippet, unknownFields } from "pocketquery/index";
import { DATA, unpacked } from "./data.js";

interface Expected {
  records: Record<string, unknown>[];
  filters: [filter: Record<string, unknown>, rows: number[] | null][];
  facets: { field: string; query?: string; filter?: Record<string, unknown>; counts: [value: unknown, documents: number][] }[];
  groups: { k: number; offset: number; group_by: string; hits: [id: string, others: number][] }[];
  fields: Record<string, number>;
  unknown: [filter: Record<string, unknown>, meant: Record<string, string | null>][];
  german: {
    documents: Record<string, string>;
    vectors: number[][];
    searches: { query: string; mode: "lexical" | "hybrid"; prefix: boolean; row: number; hits: [id: string, score: number][] }[];
  };
  snippets: [text: string, query: string, language: string, length: number, shown: string, marks: [number, number][]][];
}

const EXPECTED = unpacked(join(DATA, "../results.json.gz")) as Expected;

const encoder = { spaceId: "space-of-tests", dimension: 8, encodeQuery: () => new Float32Array(8).fill(1) };
const index = await openIndex(null, { encoder, changes: new MemoryChanges() });
await index.add(
  EXPECTED.records.map((metadata, i) => ({ id: String(i), text: "text", metadata })),
  EXPECTED.records.map(() => new Float32Array(8).fill(1)),
);

test("filters", async () => {
  for (const [filter, rows] of EXPECTED.filters) {
    const hits = index.search("text", { k: 1000, mode: "lexical", filter });
    const what = JSON.stringify(filter);
    if (rows === null) await assert.rejects(hits, InvalidInputError, what);
    else assert.deepEqual((await hits).map(({ id }) => Number(id)).sort((a, b) => a - b), rows, what);
  }
});

test("facets", async () => {
  for (const { field, counts, ...options } of EXPECTED.facets) {
    const found = await facets(index, field, options);
    const plain = counts.map(([value, documents]) => [typeof value === "bigint" ? Number(value) : Object.is(value, -0) ? 0 : value, documents]);
    assert.deepEqual(found.map(({ value, documents }) => [Object.is(value, -0) ? 0 : value, documents]), plain, field);
  }
});

test("fields, and those that a filter misspells", async () => {
  assert.deepEqual([...(await fields(index))], Object.entries(EXPECTED.fields));
  for (const [filter, meant] of EXPECTED.unknown) {
    assert.deepEqual([...(await unknownFields(index, filter))], Object.entries(meant));
  }
  await assert.rejects(unknownFields(index, { path: { $like: 1 } }), InvalidInputError);
});

test("groups", async () => {
  for (const { hits, group_by: groupBy, ...options } of EXPECTED.groups) {
    const found = await index.search("text", { mode: "lexical", groupBy, ...options });
    assert.deepEqual(found.map(({ id, others }) => [id, others]), hits, groupBy);
  }
  await assert.rejects(index.search("text", { mode: "lexical", groupBy: 7 as never }), InvalidInputError);
});

test("what stands for words in German", async () => {
  const own = await openIndex(null, { encoder, changes: new MemoryChanges(), language: "german" });
  const { documents, vectors, searches } = EXPECTED.german;
  await own.add(Object.entries(documents).map(([id, text]) => ({ id, text })), vectors.map((one) => Float32Array.from(one)));
  for (const { query, mode, prefix, row, hits } of searches) {
    const vector = mode === "hybrid" ? Float32Array.from(vectors[row]!) : undefined;
    const found = await own.search(query, { mode, prefix, k: 5, ...(vector ? { vector } : {}) });
    assert.deepEqual(found.map(({ id, score }) => [id, score]), hits, `${query}, ${mode}, ${prefix}`);
  }
});

test("snippets, with marks in UTF-16 units", async () => {
  const indexes = new Map<string, Index>();
  for (const [text, query, language, length, shown, marks] of EXPECTED.snippets) {
    const own = indexes.get(language) ?? (await openIndex(null, { encoder, changes: new MemoryChanges(), language }));
    indexes.set(language, own);
    const found = await snippet(own, text, query, { length });
    const what = JSON.stringify([text, query, language]);
    assert.equal(found.text, shown, what);
    const letters = Array.from(shown);
    const pieces = marks.map(([start, stop]) => letters.slice(start, stop).join(""));
    assert.deepEqual(found.marks.map(([start, stop]) => found.text.slice(start, stop)), pieces, what);
  }
  const hit = { text: "rain 🌧\nTuesday, Bergen\nIt poured.", metadata: { preamble: 23 } };
  assert.equal((await snippet(index, hit, "weather")).text, "It poured.");
  assert.equal((await snippet(index, hit, "Bergen")).text, "rain 🌧 Tuesday, Bergen It poured.");
  assert.equal((await snippet(index, { ...hit, metadata: { preamble: 3 } }, "weather")).text.slice(0, 4), "rain"); // a field of the user's
  await assert.rejects(snippet(index, "text", "text", { length: 19 }), InvalidInputError);
  await assert.rejects(snippet(index, 7 as never, "text"), InvalidInputError);
});
