/** What filters select, as in Python: conformance/results.json.gz. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { InvalidInputError } from "pocketquery";
import { MemoryChanges, openIndex } from "pocketquery/index";
import { DATA, unpacked } from "./data.js";

interface Expected {
  records: Record<string, unknown>[];
  filters: [filter: Record<string, unknown>, rows: number[] | null][];
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
