/** The same hits in the same order as Python, over what Python wrote and what was changed since. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { InvalidInputError } from "pocketquery";
import { MemoryChanges, openIndex } from "pocketquery/index";
import { DIMENSION, EXPECTED, source } from "./data.js";
import { assertSame } from "./hits.js";

test("an index as Python built, added to and deleted from it", async () => {
  await assertSame(await openIndex(source("base")), EXPECTED.base);
});

test("an index that Python compacted", async () => {
  await assertSame(await openIndex(source("compact")), EXPECTED.compact);
});

test("changes made here give what they give in Python, at once and after opening again", async () => {
  const changes = new MemoryChanges();
  const index = await openIndex(source("base"), { changes });
  for (const change of EXPECTED.changes) {
    if (change.add) await index.add(change.add, change.vectors!);
    else await index.delete(change.delete!);
  }
  await assertSame(index, EXPECTED.changed);
  await assertSame(await openIndex(source("base"), { changes }), EXPECTED.changed);
});

test("compacting here gives what it gives in Python, also after more changes", async () => {
  const changes = new MemoryChanges();
  const index = await openIndex(source("base"), { changes });
  for (const change of EXPECTED.changes) {
    if (change.add) await index.add(change.add, change.vectors!);
    else await index.delete(change.delete!);
  }
  const before = (await changes.read()).length;
  await index.compact();
  assert.ok((await changes.read()).length < before);
  await assertSame(index, EXPECTED.compact);
  await assertSame(await openIndex(source("base"), { changes }), EXPECTED.compact);
  // What is deleted from then on counts until it is compacted, too; what was, never again.
  const vector = new Float32Array(DIMENSION).fill(1);
  await index.add([{ id: "later", text: "bridge", metadata: {} }], [vector]);
  assert.equal(await index.delete(["d4", "later"]), 2);
  const again = await openIndex(source("base"), { changes });
  for (const query of ["bridge", "the river", "building built"]) {
    assert.deepEqual(await again.search(query, { mode: "lexical" }), await index.search(query, { mode: "lexical" }));
  }
  await index.compact();
  await index.compact();
  assert.equal((await openIndex(source("base"), { changes })).size, EXPECTED.compact.size - 1);
  await assert.rejects((await openIndex(source("base"))).compact(), /for reading only/);
});

test("the vectors that training takes are the living documents'", async () => {
  const index = await openIndex(source("base"), { changes: new MemoryChanges() });
  const vector = Float32Array.from({ length: DIMENSION }, (_, i) => Math.sin(i));
  await index.add([{ id: "mine", text: "my text", metadata: {} }], [vector]);
  await index.delete(["d1"]);
  const documents = index.vectors();
  assert.equal(documents.count, index.size);
  assert.deepEqual([documents.rowOf("d0"), documents.rowOf("d1"), documents.rowOf("mine")], [undefined, undefined, index.size - 1]);
  const near = documents.nearest(vector, 5);
  const hits = await index.search(vector, { k: index.size }); // whose order depends on their languages, too
  const nearest = hits.sort((one, other) => (other.cosine ?? -1) - (one.cosine ?? -1)).slice(0, 5);
  assert.deepEqual(near, nearest.map(({ id }) => documents.rowOf(id)));
  const length = Math.hypot(...vector);
  const [stored] = [documents.vectors([index.size - 1])];
  assert.ok(vector.every((value, i) => Math.abs(value / length - (stored[i] ?? 9)) < 0.01));
  // What was taken before stays whole, and what is added later does not count.
  await index.add(["x", "y", "z", "u", "v"].map((id) => ({ id, text: "" })), Array(5).fill(vector));
  await index.delete(["mine"]);
  assert.deepEqual(documents.vectors([documents.count - 1]), stored);
  assert.deepEqual(documents.nearest(vector, 5), near);
  await index.compact();
  assert.deepEqual(documents.nearest(vector, 5), near);
  await assert.rejects(async () => documents.nearest(new Float32Array(3), 1), InvalidInputError);
});

test("a document is what Python stored", async () => {
  const index = await openIndex(source("base"));
  assert.equal(index.get("d0"), undefined); // was deleted
  assert.equal(index.get("none"), undefined);
  const long = index.get("long");
  assert.equal(long?.text, "overflow ".repeat(700) + "x".repeat(9000));
  assert.deepEqual(long?.metadata, { note: "y".repeat(9000) });
  const [hit] = await index.search("overflow", { mode: "lexical", k: 1 });
  assert.deepEqual(hit && { id: hit.id, text: hit.text, metadata: hit.metadata }, long);
});
