import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ArtifactNotFoundError, type FileSource, MemorySource } from "pocketquery";
import { FolderSource } from "pocketquery/node";

const CONTENT = Uint8Array.from({ length: 1000 }, (_, i) => i % 251);

async function sources(): Promise<FileSource[]> {
  const folder = await mkdtemp(join(tmpdir(), "pocketquery-"));
  await writeFile(join(folder, "a.bin"), CONTENT);
  return [new MemorySource({ "a.bin": CONTENT }), new FolderSource(folder)];
}

test("every source reads alike", async () => {
  for (const source of await sources()) {
    assert.deepEqual(await source.list(), ["a.bin"]);
    assert.equal(await source.size("a.bin"), 1000);
    assert.equal(await source.size("b.bin"), null);
    assert.deepEqual(await source.read("a.bin"), CONTENT);
    assert.deepEqual(await source.read("a.bin", { limit: 7 }), CONTENT.subarray(0, 7));
    assert.deepEqual(await source.readRange("a.bin", 5, 9), CONTENT.subarray(5, 9));
    assert.deepEqual(await source.readRange("a.bin", 990, 2000), CONTENT.subarray(990));
    await assert.rejects(source.read("b.bin"), ArtifactNotFoundError);
    await assert.rejects(source.readRange("b.bin", 0, 1), ArtifactNotFoundError);
    await assert.rejects(source.read("a.bin", { signal: AbortSignal.abort() }), {
      name: "AbortError",
    });
  }
});
