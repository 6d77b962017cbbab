import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { CorruptArtifactError, MemorySource, ZipSource } from "pocketquery";
import { crc32 } from "../dist/platform/crc32.js";
import { read, TINY_FILES } from "./fixtures.js";

const open = (bytes: Uint8Array): Promise<ZipSource> =>
  ZipSource.open(new MemorySource({ "b.zip": bytes }), "b.zip");

test("a zip reads as the folder it is of", async () => {
  const zip = await open(read("tiny.zip"));
  assert.deepEqual((await zip.list()).sort(), TINY_FILES);
  for (const name of TINY_FILES) {
    const content = new Uint8Array(read(`tiny/${name}`));
    assert.equal(await zip.size(name), content.length);
    assert.deepEqual(new Uint8Array(await zip.read(name)), content);
    assert.deepEqual(new Uint8Array(await zip.read(name, { limit: 5 })), content.subarray(0, 5));
    const span = new Uint8Array(await zip.readRange(name, 3, 1e9));
    assert.deepEqual(span, content.subarray(3));
  }
  assert.equal(await zip.size("x"), null);
  await assert.rejects(zip.read("x"), { name: "ArtifactNotFoundError" });
});

interface Made {
  name?: string;
  data?: Buffer;
  method?: number;
  flags?: number;
  size?: number;
  crc?: number;
}

/** A zip of these entries, as they are said to be. */
function made(entries: Made[], comment = ""): Buffer {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const { name = "a", data = Buffer.from("abc"), method = 0, flags = 0, size, crc } of entries) {
    const raw = Buffer.from(name);
    const local = Buffer.alloc(30);
    local.writeUInt32BE(0x504b0304, 0);
    local.writeUInt16LE(flags, 6);
    local.writeUInt16LE(method, 8);
    local.writeUInt32LE(crc ?? crc32(data), 14);
    local.writeUInt32LE(data.length, 18);
    local.writeUInt32LE(size ?? data.length, 22);
    local.writeUInt16LE(raw.length, 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32BE(0x504b0102, 0);
    local.copy(entry, 8, 6, 30); // the same fields, two bytes further
    entry.writeUInt32LE(at, 42);
    files.push(local, raw, data);
    directory.push(entry, raw);
    at += 30 + raw.length + data.length;
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32BE(0x504b0506, 0);
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(listed.length, 12);
  end.writeUInt32LE(at, 16);
  end.writeUInt16LE(comment.length, 20);
  return Buffer.concat([...files, listed, end, Buffer.from(comment)]);
}

test("zips that do more than hold plain files are refused", async () => {
  assert.deepEqual(await (await open(made([{}, { name: "é", flags: 1 << 11 }], "hello"))).list(), ["a", "é"]);
  const packed = deflateRawSync(Buffer.alloc(1 << 16));
  const refused: [Made[], RegExp][] = [
    [[{ method: 8, data: packed, size: 1 << 16 }], /'a' is compressed \(method 8\), expected it stored/],
    [[{ size: 4 }], /'a' has 3 bytes for 4, expected as many/],
    [[{ flags: 1 }], /'a' is encrypted, expected it plain/],
    [[{}, {}], /it holds 'a' twice, expected once/],
    ...["../a", "/a", "\\a", "a/../b", "c:a"].map((name): [Made[], RegExp] => [[{ name }], /names inside/]),
    [[{ name: "é" }], /a name in it is not UTF-8/],
    [Array.from({ length: 257 }, (_, i) => ({ name: `${i}` })), /it lists 257 files in \d+ bytes/],
  ];
  for (const [entries, message] of refused) {
    await assert.rejects(open(made(entries)), (error: Error) => {
      assert.ok(error instanceof CorruptArtifactError);
      assert.match(error.message, message);
      return true;
    });
  }
  const bad = await open(made([{ crc: 1 }]));
  await assert.rejects(bad.read("a"), /a cannot be unzipped: its check sum differs from the zip's/);
});

test("a zip that is cut or changed anywhere is refused or reads the same", async () => {
  const whole = made([{ name: "one", data: Buffer.from("first") }, { name: "two" }]);
  const content = async (bytes: Uint8Array): Promise<string> => {
    const zip = await open(bytes);
    const names = await zip.list();
    return String(await Promise.all(names.map(async (name) => [name, await zip.read(name)])));
  };
  const expected = await content(whole);
  for (let at = 0; at < whole.length; at++) {
    await assert.rejects(open(whole.subarray(0, at)), CorruptArtifactError);
    for (const bit of [1, 0x80]) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] ?? 0) ^ bit;
      const found = await content(changed).catch((error: unknown) => {
        assert.ok(error instanceof CorruptArtifactError, String(error));
        return null;
      });
      if (found !== null) assert.equal(found, expected, String(at));
    }
  }
});
