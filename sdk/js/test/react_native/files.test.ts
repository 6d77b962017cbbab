/** An app's files: sources over them, changes in them whatever ends the app, and what stands in for the platform. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { appendFileSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openIndex } from "pocketquery/index";
import { FolderSource } from "pocketquery/node";
import { type FileSystem, FileSystemChanges, FileSystemSource, fromBase64, load, openSource, toBase64 } from "pocketquery/react-native";
import { hashPlainly, sha256 } from "../../dist/platform/hashing.js";
import { plainSha256, Sha256 } from "../../dist/platform/sha256.js";
import { EXPECTED, FIXTURES, TINY } from "../fixtures.js";

const FOLDER = mkdtempSync(join(tmpdir(), "pocketquery-app-"));
after(() => rmSync(FOLDER, { recursive: true }));

/** Node's files, as a module of React Native has them: bytes in base 64. `step` is called before each change. */
function onDisk(step: (path: string, bytes?: Uint8Array) => void = () => undefined): Required<FileSystem> {
  return {
    size: async (path) => (existsSync(path) ? statSync(path).size : null),
    read: async (path, begin, length) => readFileSync(path).subarray(begin, begin + length).toString("base64"),
    write: async (path, bytes) => {
      step(path, bytes);
      writeFileSync(path, bytes);
    },
    append: async (path, bytes) => {
      step(path, bytes);
      appendFileSync(path, bytes);
    },
    move: async (from, to) => {
      step(from);
      rmSync(to, { force: true }); // as on iOS, where nothing is moved over another file
      step(from);
      renameSync(from, to);
    },
  };
}

test("a folder and a zip are read as Node reads them", async () => {
  const [ours, theirs] = [new FileSystemSource(onDisk(), `${TINY}/`), new FolderSource(TINY)];
  assert.equal(ours.name, TINY);
  for (const file of ["manifest.json", "encoder.onnx"]) {
    const size = (await theirs.size(file))!;
    assert.equal(await ours.size(file), size);
    assert.deepEqual(await ours.read(file, { limit: 10 }), Uint8Array.from(await theirs.read(file, { limit: 10 })));
    for (const [begin, end] of [[0, size], [5, 9], [size - 3, size + 9], [size + 1, size + 2]] as const) {
      assert.deepEqual(await ours.readRange(file, begin, end), await theirs.readRange(file, begin, end));
    }
  }
  assert.equal(await ours.size("absent"), null);
  await assert.rejects(ours.read("absent"), { name: "ArtifactNotFoundError", message: /tiny: absent is missing/ });
  await assert.rejects(ours.list(), { name: "InvalidInputError" });
  const encoder = await load(await openSource(onDisk(), join(FIXTURES, "tiny.zip")), { publicKey: EXPECTED.key, verify: true });
  assert.equal(encoder.dimension, 16);
});

test("a large file comes in pieces, between which it can be ended", async () => {
  const [path, bytes] = [join(FOLDER, "large"), Uint8Array.from({ length: 2_500_000 }, (_, i) => i % 251)];
  writeFileSync(path, bytes);
  const source = new FileSystemSource(onDisk(), FOLDER);
  const told: number[] = [];
  assert.deepEqual(await source.read("large", { onBytes: (done) => void told.push(done) }), bytes);
  assert.equal(told.length, 3);
  const controller = new AbortController();
  const ended = source.read("large", { signal: controller.signal, onBytes: () => controller.abort(new Error("enough")) });
  await assert.rejects(ended, /enough/);
});

/** What was done, and what is there after so many of it. */
const NOTES = ["a", "b", "c"].map((id) => ({ id, text: `note ${id}` }));
const STATES = [[], ["a", "b"], ["b"], ["b", "c"], ["b", "c"]];

for (const appends of [true, false]) {
  test(`an app that ends at any moment keeps what was done, ${appends ? "with" : "without"} appending`, async () => {
    const encoder = await load(new FileSystemSource(onDisk(), TINY));
    let ends = 0;
    for (let budget = 0; ; budget++) {
      const path = join(FOLDER, `changes-${appends}-${budget}`);
      let left = budget;
      const dying = onDisk((place, bytes) => {
        if (left-- > 0) return;
        if (bytes && left === -1) {
          if (existsSync(place) && place === path) appendFileSync(place, bytes.subarray(0, bytes.length / 2));
          else writeFileSync(place, bytes.subarray(0, bytes.length / 2));
        }
        throw new Error("the app was ended");
      });
      const files: FileSystem = appends ? dying : (({ append: _, ...others }) => others)(dying);
      let done = 0;
      try {
        const index = await openIndex(null, { encoder, changes: new FileSystemChanges(files, path) });
        const steps = [() => index.add(NOTES.slice(0, 2)), () => index.delete(["a"]), () => index.add(NOTES.slice(2)), () => index.compact()];
        for (const step of steps) {
          await step();
          done++;
        }
      } catch (error) {
        assert.match(String(error), /the app was ended; the index is as it was/);
      }
      const again = await openIndex(null, { encoder, changes: new FileSystemChanges(onDisk(), path) });
      const found = NOTES.map(({ id }) => id).filter((id) => again.get(id));
      const possible = [STATES[done], STATES[Math.min(done + 1, 4)]].map(String);
      assert.ok(possible.includes(String(found)), `ended at ${budget}: ${found} after ${done}`);
      await again.add([{ id: "later", text: "later" }]);
      assert.equal((await openIndex(null, { encoder, changes: new FileSystemChanges(onDisk(), path) })).size, found.length + 1);
      if (done === 4) break;
      ends++;
    }
    assert.ok(ends >= 8, `${ends}`);
  });
}

test("a full disk, and a file that another wrote, are errors of their own", async () => {
  const encoder = await load(new FileSystemSource(onDisk(), TINY));
  const path = join(FOLDER, "full");
  let isFull = false;
  const files = onDisk(() => {
    if (isFull) throw Object.assign(new Error("write failed"), { code: "ENOSPC" });
  });
  const changes = new FileSystemChanges(files, path);
  const index = await openIndex(null, { encoder, changes });
  await index.add(NOTES);
  isFull = true;
  await assert.rejects(index.add([{ id: "d", text: "d" }]), { name: "StorageFullError", message: /full: write failed; the index is as it was/ });
  assert.equal(index.size, 3);
  isFull = false;
  const before = await changes.state();
  await (await openIndex(null, { encoder, changes: new FileSystemChanges(files, path) })).delete(["a"]);
  await assert.rejects(changes.append(new Uint8Array(3), before), { name: "ChangedElsewhereError" });
  await index.add([{ id: "d", text: "d" }]); // which takes that up first
  assert.deepEqual([index.size, index.get("a")], [3, undefined]);
});

test("what is no file system, or gives no bytes, is refused by name", async () => {
  const { move: _, ...reading } = onDisk();
  assert.throws(() => new FileSystemChanges(reading as never, "x"), { name: "InvalidInputError", message: /without move, expected an object with size, read, write, move/ });
  assert.throws(() => new FileSystemSource(null as never, "x"), { name: "InvalidInputError", message: /is null without size/ });
  const wrong = new FileSystemSource({ ...reading, read: async () => 7 as never }, TINY);
  await assert.rejects(wrong.read("manifest.json"), { name: "InvalidInputError", message: /read gave .*, expected \d+ bytes or their base 64/ });
  const failing = { ...reading, size: () => Promise.reject(new Error("no permission")) };
  await assert.rejects(new FileSystemSource(failing, "x").read("y"), { name: "ArtifactError", message: "x/y: no permission" });
});

test("base 64 and SHA-256 are the platform's", async () => {
  const bytes = Uint8Array.from({ length: 200_003 }, (_, i) => (i * 7919) >> 3);
  for (const length of [...Array(140).keys(), 4096, 200_003]) {
    const some = bytes.subarray(0, length);
    const packed = Buffer.from(some).toString("base64");
    assert.deepEqual([toBase64(some), fromBase64(packed)], [packed, some]);
    assert.equal(Buffer.from(plainSha256(some)).toString("hex"), createHash("sha256").update(some).digest("hex"));
  }
  const [hash, right] = [new Sha256(), createHash("sha256")];
  for (const [begin, end] of [[0, 3], [3, 3], [3, 64], [64, 128], [128, 190], [190, 4001], [4001, 200_003]] as const) {
    hash.update(bytes.subarray(begin, end));
    right.update(bytes.subarray(begin, end));
  }
  assert.equal(Buffer.from(hash.digest()).toString("hex"), right.digest("hex"));
  assert.deepEqual(fromBase64("YWJ\r\nj\nZA"), new TextEncoder().encode("abcd"));
  assert.throws(() => fromBase64("YW-j"), { name: "InvalidInputError", message: /the character "-" at position 2/ });
});

test("without WebCrypto hashes are computed here, where somebody brought them", async () => {
  const found = Object.getOwnPropertyDescriptor(globalThis, "crypto")!;
  Object.defineProperty(globalThis, "crypto", { value: undefined, configurable: true });
  try {
    assert.equal(await sha256(new TextEncoder().encode("abc")), createHash("sha256").update("abc").digest("hex"));
    hashPlainly(undefined as never);
    await assert.rejects(sha256(new Uint8Array()), { name: "MissingExtraError" });
  } finally {
    hashPlainly(plainSha256);
    Object.defineProperty(globalThis, "crypto", found);
  }
});
