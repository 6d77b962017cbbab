/** Whether an index finds what Python's finds. */
import assert from "node:assert/strict";
import { InvalidInputError } from "pocketquery";
import type { Index } from "pocketquery/index";
import { type Answers, DIMENSION, type Search } from "./data.js";

/** The same hits for every search, the same documents for every filter. */
export async function assertSame(index: Index, expected: Omit<Answers, "filters"> & Partial<Answers>): Promise<void> {
  assert.equal(index.size, expected.size);
  for (const search of expected.searches) await assertSameHits(index, search);
  for (const [filter, ids] of expected.filters ?? []) {
    const vector = new Float32Array(DIMENSION).fill(1);
    const found = index.search(vector, { k: 1000, filter: filter as Record<string, unknown> });
    if (ids === null) {
      await assert.rejects(found, InvalidInputError, show(filter));
    } else {
      assert.deepEqual((await found).map(({ id }) => id).sort(), ids, show(filter));
    }
  }
}

async function assertSameHits(index: Index, search: Search): Promise<void> {
  const { query, hits: expected, ...options } = search;
  const hits = await index.search(query, options);
  const what = show({ query, ...options, expected });
  assert.deepEqual(hits.map(({ id, score, cosine, bm25 }) => [id, score, cosine, bm25]), expected, what);
}

function show(value: unknown): string {
  return JSON.stringify(value, (_, item: unknown) => (typeof item === "bigint" ? `${item}n` : item));
}
