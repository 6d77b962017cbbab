/** What is added and deleted on the device: kept whole or not at all, erased when deleted. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import {
  ArtifactError,
  CorruptArtifactError,
  InvalidInputError,
  MemorySource,
  SpaceMismatchError,
  StorageFullError,
} from "pocketquery";
import { type ChangeStore, type Index, MemoryChanges, openIndex } from "pocketquery/index";
import { NOTHING_WRITTEN, writtenIn } from "../../dist/index/changes/change_store.js";
import { openWith } from "../../dist/index/index.js";
import { type LoadProgram, loadProgram } from "../../dist/words/languages.js";
import { FileChanges } from "../../dist/index/changes/file_changes.js";
import { DATA, DIMENSION, drawer, source } from "./data.js";

const VECTOR = Float32Array.from({ length: DIMENSION }, (_, i) => i + 1);
const document = (id: string) => ({ id, text: `secret ${id}`, metadata: { kind: "own" } });

async function filled(count: number): Promise<Uint8Array> {
  const changes = new MemoryChanges();
  const index = await openIndex(source("base"), { changes });
  for (let i = 0; i < count; i++) await index.add([document(`new${i}`)], [VECTOR]);
  await index.delete(["d1", "d2"]);
  return changes.read();
}

test("changes in memory are copies, also of a Buffer", async () => {
  const [changes, buffer] = [new MemoryChanges(), Buffer.from("changes")];
  await changes.replace(buffer, NOTHING_WRITTEN);
  const { begin } = writtenIn([buffer]);
  buffer.fill(0);
  const kept = new TextEncoder().encode("changes");
  assert.deepEqual([await changes.read(), begin], [kept, kept]);
});

test("a log that was cut anywhere gives the changes before the cut, and can be gone on with", async () => {
  const whole = await filled(4);
  const size = (await openIndex(source("base"))).size;
  const seen = new Set<number>();
  for (let cut = 0; cut <= whole.length; cut += cut % 7 === 0 ? 1 : 11) {
    for (const rest of [0, 40]) {
      // What a file system shows of a write that was cut off: less, or zeros.
      const bytes = new Uint8Array(cut < whole.length ? cut + rest : cut);
      bytes.set(whole.subarray(0, cut));
      const changes = new MemoryChanges(bytes);
      const index = await openIndex(source("base"), { changes });
      seen.add(index.size - size);
      const before = index.size;
      await index.add([document("after")], [VECTOR]);
      assert.equal((await openIndex(source("base"), { changes })).size, before + 1);
    }
  }
  assert.deepEqual([...seen].sort(), [0, 1, 2, 3, 4]);
});

test("damage in the middle of a log is refused, at its end taken for a cut", async () => {
  const whole = await filled(4);
  const draw = drawer(5);
  for (let round = 0; round < 300; round++) {
    const bytes = whole.slice();
    bytes[Math.floor(draw() * bytes.length)]! ^= 1 << Math.floor(draw() * 8);
    const opened = openIndex(source("base"), { changes: new MemoryChanges(bytes) });
    await opened.catch((error: unknown) => assert.ok(error instanceof CorruptArtifactError));
  }
  const bytes = whole.slice();
  bytes[200]! ^= 1;
  const opened = openIndex(source("base"), { changes: new MemoryChanges(bytes) });
  await assert.rejects(opened, CorruptArtifactError);
});

test("a file that is no log, or of another space, is refused and left alone", async () => {
  const head = (await filled(1)).subarray(0, 60); // of a first record that is longer
  const other = Buffer.from(Buffer.from(head).toString("latin1").replace("format", "tamrof"), "latin1");
  const broken = [Buffer.from("Dear diary, no log is here.\n".repeat(9)), Buffer.from("{}"), Buffer.alloc(9, 1), other];
  for (const bytes of [...broken, Buffer.concat([head, Buffer.alloc(9), Buffer.from("x")])]) {
    const changes = new MemoryChanges(bytes);
    await assert.rejects(openIndex(source("base"), { changes }), (error: Error) => {
      return error instanceof CorruptArtifactError && error.message.includes("may be another program's file");
    });
    assert.deepEqual(await changes.read(), bytes);
  }
  const elsewhere = new MemorySource(await renamed());
  await assert.rejects(openIndex(elsewhere, { changes: new MemoryChanges(head) }), CorruptArtifactError);
  for (const bytes of [head, Buffer.concat([head, Buffer.alloc(99)]), Buffer.alloc(99)]) {
    const index = await openIndex(source("base"), { changes: new MemoryChanges(bytes) });
    await index.add([document("after")], [VECTOR]);
  }
});

test("deleting erases text, id and metadata from the log at once", async () => {
  const changes = new MemoryChanges();
  const index = await openIndex(source("base"), { changes });
  await index.add([document("mine"), document("other")], [VECTOR, VECTOR]);
  const holds = async (text: string) => Buffer.from(await changes.read()).includes(text);
  assert.ok((await holds("secret mine")) && (await holds('"id":"mine"')));
  assert.equal(await index.delete(["mine", "mine", "unknown"]), 1);
  for (const text of ["secret mine", '"id":"mine"']) assert.ok(!(await holds(text)), text);
  assert.ok(await holds("secret other"));
  assert.equal(index.get("mine"), undefined);
  const again = await openIndex(source("base"), { changes });
  assert.equal(again.size, index.size);
  assert.deepEqual(
    await again.search("secret", { mode: "lexical" }),
    await index.search("secret", { mode: "lexical" }),
  );
});

test("a caller's objects and the index's are apart", async () => {
  const index = await openIndex(source("base"), { changes: new MemoryChanges() });
  const metadata = { list: [1] };
  await index.add([{ id: "new", text: "t", metadata }], [VECTOR]);
  metadata.list.push(2);
  (index.get("new")!.metadata["list"] as number[]).push(3);
  assert.deepEqual(index.get("new")!.metadata, { list: [1] });
  const vectors = Array.from({ length: 3000 }, () => VECTOR.slice());
  const adding = index.add(vectors.map((_, i) => ({ id: `many ${i}`, text: "many" })), vectors);
  for (const vector of vectors) vector.fill(Number.NaN);
  await adding;
  assert.equal((await index.search("many", { mode: "lexical", k: 5000 })).length, vectors.length);
});

test("what cannot be added changes nothing", async () => {
  const changes = new MemoryChanges();
  const index = await openIndex(source("base"), { changes });
  const { size } = index;
  const loop: Record<string, unknown> = {};
  loop["self"] = loop;
  const wrong: [unknown, unknown][] = [
    [[document("d1")], [VECTOR]],
    [[document("a"), document("a")], [VECTOR, VECTOR]],
    [[document("a")], []],
    [[document("a")], [VECTOR.subarray(1)]],
    [[document("a")], [new Float32Array(DIMENSION)]],
    [[document("a")], [new Float32Array(DIMENSION).fill(Number.NaN)]],
    [[document("a")], ["no vector"]],
    [[document("")], [VECTOR]],
    [[{ id: "a", text: "half \ud800" }], [VECTOR]],
    [[{ id: "a", text: 3 }], [VECTOR]],
    [[{ id: "a", text: "", metadata: { when: new Date() } }], [VECTOR]],
    [[{ id: "a", text: "", metadata: { number: Infinity } }], [VECTOR]],
    [[{ id: "a", text: "", metadata: loop }], [VECTOR]],
    [[null], [VECTOR]],
    ["documents", "vectors"],
  ];
  for (const [documents, vectors] of wrong) {
    await assert.rejects(index.add(documents as never, vectors as never), InvalidInputError);
  }
  await assert.rejects(index.delete("d1" as never), InvalidInputError);
  assert.equal(index.size, size);
  assert.equal((await changes.read()).length, 0);
  const reading = await openIndex(source("base"));
  await assert.rejects(reading.add([document("a")], [VECTOR]), InvalidInputError);
  await assert.rejects(reading.delete(["d1"]), InvalidInputError);
});

test("a store that fails leaves the index as it was, and the next change makes it good", async () => {
  const memory = new MemoryChanges();
  let fails = false;
  const changes: ChangeStore = {
    name: "a full disk",
    read: () => memory.read(),
    replace: (bytes, length) => memory.replace(bytes, length),
    append: async (bytes, length) => {
      await memory.append(fails ? bytes.subarray(0, 30) : bytes, length);
      if (fails) throw new ArtifactError("no room");
    },
  };
  const index = await openIndex(source("base"), { changes });
  await index.add([document("one")], [VECTOR]);
  fails = true;
  await assert.rejects(index.add([document("two")], [VECTOR]), ArtifactError);
  assert.equal(index.get("two"), undefined);
  fails = false;
  await index.add([document("three")], [VECTOR]);
  const again = await openIndex(source("base"), { changes });
  assert.deepEqual(["one", "two", "three"].map((id) => again.get(id)?.id), ["one", undefined, "three"]);
});

test("what another program wrote is taken up before a search and a change", async () => {
  const folder = mkdtempSync(join(tmpdir(), "pocketquery-"));
  try {
    for (const changes of [new MemoryChanges(), new FileChanges(join(folder, "changes.log"))]) {
      const first = await openIndex(source("base"), { changes });
      await first.add([document("diary"), document("kept")], [VECTOR, VECTOR]);
      const stale = await openIndex(source("base"), { changes });
      await first.delete(["diary"]);
      await first.add([document("later")], [VECTOR]);
      const ids = async (index: Index) =>
        (await index.search("secret", { mode: "lexical", k: 9 })).map(({ id }) => id).sort();
      assert.deepEqual(await ids(stale), ["kept", "later"]);
      assert.equal(stale.size, first.size);
      await first.add([document("once")], [VECTOR]);
      await assert.rejects(stale.add([document("once")], [VECTOR]), /the id 'once' is in the index already/);
      await stale.add([document("mine")], [VECTOR]);
      assert.deepEqual([await stale.delete(["d1", "kept"]), await first.delete(["later"])], [2, 1]);
      await stale.compact();
      assert.equal(await first.refresh(), true);
      assert.equal(await first.refresh(), false);
      const again = await openIndex(source("base"), { changes });
      for (const index of [first, stale, again]) {
        assert.deepEqual([await ids(index), index.size, index.get("d1")], [["mine", "once"], again.size, undefined]);
      }
      const log = Buffer.from(await changes.read()).toString("latin1");
      assert.deepEqual(["diary", "kept", "later", "mine"].map((id) => log.includes(`secret ${id}`)), [false, false, false, true]);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("an edit of the same length is told from what was there", async () => {
  const folder = mkdtempSync(join(tmpdir(), "pocketquery-"));
  try {
    for (const changes of [new MemoryChanges(), new FileChanges(join(folder, "changes.log"))]) {
      const first = await openIndex(source("base"), { changes });
      await first.add([{ id: "todo", text: "[ ] buy milk" }], [VECTOR]);
      await first.compact();
      const { length } = await changes.read();
      const stale = await openIndex(source("base"), { changes });
      await first.delete(["todo"]);
      await first.add([{ id: "todo", text: "[x] buy milk" }], [VECTOR]);
      await first.compact();
      assert.equal((await changes.read()).length, length);
      await stale.compact();
      await stale.add([document("mine")], [VECTOR]);
      for (const index of [stale, await openIndex(source("base"), { changes })]) {
        assert.equal(index.get("todo")?.text, "[x] buy milk");
      }
    }
    const folders = await openIndex(source("base"), { changes: new FileChanges(folder) }).catch((error: unknown) => error);
    assert.ok(folders instanceof ArtifactError && /EISDIR/.test(folders.message));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("of two writers of one file at a time nothing is lost", async () => {
  const folder = mkdtempSync(join(tmpdir(), "pocketquery-"));
  try {
    const open = () => openIndex(source("base"), { changes: new FileChanges(join(folder, "changes.log")) });
    for (let round = 0; round < 10; round++) {
      const both = [await open(), await open()];
      const tried = await Promise.allSettled(both.map((index, i) => index.add([document(`${round}-${i}`)], [VECTOR])));
      const again = await open();
      assert.deepEqual(tried.map(({ status }) => status), ["fulfilled", "fulfilled"]);
      for (const index of [again, ...both]) {
        await index.refresh();
        assert.deepEqual([0, 1].map((i) => index.get(`${round}-${i}`)?.id), [`${round}-0`, `${round}-1`]);
      }
    }
    // What a killed program left beside it is gone with what is deleted.
    writeFileSync(join(folder, "changes.log.4711.tmp"), "secret 0-0");
    const index = await open();
    await index.delete([index.get("0-0") ? "0-0" : "0-1"]);
    assert.deepEqual(readdirSync(folder), ["changes.log"]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("of a torn log, and of one whose writing failed, nothing of another program's is dropped", async () => {
  const whole = await filled(4);
  const torn = whole.subarray(0, whole.length - 3);
  for (const rest of [whole.subarray(0, 0), whole.subarray(0, torn.length - 100), whole]) {
    // It was deleted, made shorter, or its last record was on its way.
    let bytes = torn;
    const changes: ChangeStore = {
      name: "shared",
      read: async () => bytes,
      append: async (written) => void (bytes = Buffer.concat([bytes, written])),
      replace: async (written) => void (bytes = written),
    };
    const index = await openIndex(source("base"), { changes });
    bytes = rest;
    const { size: there } = await openIndex(source("base"), { changes: new MemoryChanges(rest) });
    await index.add([document("mine")], [VECTOR]);
    assert.equal((await openIndex(source("base"), { changes })).size, there + 1);
    assert.equal(index.size, there + 1);
  }
  const memory = new MemoryChanges();
  let room = Infinity;
  const changes: ChangeStore = {
    name: "a failing disk",
    read: () => memory.read(),
    replace: (bytes, length) => memory.replace(bytes, length),
    append: async (bytes, length) => {
      await memory.append(bytes.subarray(0, room), length);
      if (room < Infinity) throw new ArtifactError("no room");
    },
  };
  const index = await openIndex(source("base"), { changes });
  await index.add([document("first")], [VECTOR]);
  for (const part of [0, 30, 1e6]) { // of the record: all of it, in the end
    room = part;
    await assert.rejects(index.add([document("failed")], [VECTOR]), /no room/);
    room = Infinity;
    await index.add([document(`after ${part}`)], [VECTOR]);
    const again = await openIndex(source("base"), { changes });
    assert.deepEqual([again.size, again.get("failed")], [index.size, undefined]);
  }
  room = 0;
  await assert.rejects(index.add([document("failed")], [VECTOR]), /no room/);
  room = Infinity;
  await (await openIndex(source("base"), { changes })).add([document("other")], [VECTOR]);
  await index.add([document("mine")], [VECTOR]);
  for (const one of [index, await openIndex(source("base"), { changes })]) {
    assert.deepEqual(["other", "mine", "failed"].map((id) => one.get(id)?.id), ["other", "mine", undefined]);
  }
});

test("who goes on while another writes all the time, or put another index in its place, is told", async () => {
  const memory = new MemoryChanges();
  const busy: ChangeStore = {
    name: "busy",
    read: () => memory.read(),
    append: async (bytes, known) => {
      await (await openIndex(source("base"), { changes: memory })).add([document(`other ${Math.random()}`)], [VECTOR]);
      await memory.append(bytes, known);
    },
    replace: (bytes, known) => memory.replace(bytes, known),
  };
  const index = await openIndex(source("base"), { changes: busy });
  await index.add([document("first")], [VECTOR]);
  const refused = { name: "ChangedElsewhereError", message: /^the changes in memory: has \d+ bytes, expected \d+: another tab or program/ };
  await assert.rejects(index.add([document("second")], [VECTOR]), refused);
  assert.equal(index.get("second"), undefined);
  const there = await memory.read();
  const elsewhere = new MemoryChanges();
  await (await openIndex(new MemorySource(await renamed()), { changes: elsewhere })).add([document("there")], [VECTOR]);
  await memory.replace(await elsewhere.read(), writtenIn([there]));
  for (const work of [() => index.search("secret", { mode: "lexical" }), () => index.delete(["first"])]) {
    await assert.rejects(work, { name: "ChangedElsewhereError", message: /put something else in its place; open the index again/ });
  }
  assert.equal(index.get("first")?.id, "first");
});

test("a file on a full disk notes what was deleted, and erases it when there is room", async () => {
  const memory = new MemoryChanges();
  let room = true;
  const full = (): never => {
    throw new StorageFullError("no room");
  };
  const changes: ChangeStore = {
    name: "a full disk",
    read: () => memory.read(),
    append: (bytes, known) => (room || bytes.length < 200 ? memory.append(bytes, known) : full()),
    replace: (bytes, known) => (room ? memory.replace(bytes, known) : full()),
  };
  const index = await openIndex(source("base"), { changes });
  await index.add([document("mine"), document("kept")], [VECTOR, VECTOR]);
  room = false;
  const long = { id: "too long", text: "too long ".repeat(50) };
  await assert.rejects(index.add([long], [VECTOR]), StorageFullError);
  assert.equal(await index.delete(["mine", "d1"]), 2);
  const again = await openIndex(source("base"), { changes });
  for (const one of [index, again]) assert.deepEqual([one.get("mine"), one.get("d1"), one.get("kept")?.id], [undefined, undefined, "kept"]);
  const search = (one: Index) => one.search("secret", { mode: "lexical" });
  assert.deepEqual(await search(again), await search(index));
  room = true;
  await index.add([long], [VECTOR]);
  assert.ok(!Buffer.from(await memory.read()).includes("secret mine"));
  assert.deepEqual(["mine", "too long"].map((id) => index.get(id)?.id), [undefined, "too long"]);
});

test("changes of another space are refused; another file of the same space keeps them", async () => {
  const changes = new MemoryChanges();
  const index = await openIndex(source("compact"), { changes });
  await index.delete(["d3"]);
  await index.add([document("d3"), document("d0")], [VECTOR, VECTOR]); // d0 is deleted in both
  const other = await openIndex(source("base"), { changes });
  for (const id of ["d0", "d3"]) assert.equal(other.get(id)?.text, `secret ${id}`);
  const elsewhere = new MemorySource(await renamed());
  await assert.rejects(openIndex(elsewhere, { changes }), SpaceMismatchError);
});

/** The base index as one of another space, without hashes. */
async function renamed(): Promise<Map<string, Uint8Array>> {
  const found = new Map<string, Uint8Array>();
  for (const name of ["index.json", "documents.sqlite", "vectors-0.u8"]) {
    const text = readFileSync(join(DATA, "base", name)).toString("latin1");
    found.set(name, Buffer.from(text.replaceAll("space-of-tests", "space-of-other"), "latin1"));
  }
  const { createHash } = await import("node:crypto");
  const fields = JSON.parse(Buffer.from(found.get("index.json")!).toString());
  for (const [name, record] of Object.entries<{ sha256: string }>(fields.files)) {
    record.sha256 = createHash("sha256").update(found.get(name)!).digest("hex");
  }
  return found.set("index.json", Buffer.from(JSON.stringify(fields)));
}

test("a file keeps what was added before a kill", async () => {
  const folder = mkdtempSync(join(tmpdir(), "pocketquery-"));
  try {
    const path = join(folder, "deep", "changes.log");
    const dist = new URL("../../dist/", import.meta.url).href;
    const script = join(folder, "writer.mjs");
    writeFileSync(
      script,
      `import { openIndex } from "${dist}index/index.js";
       import { FileChanges } from "${dist}index/changes/file_changes.js";
       import { FolderSource } from "${dist}files/folder.js";
       const [at, from] = process.argv.slice(2);
       const changes = new FileChanges(at);
       const index = await openIndex(new FolderSource(${JSON.stringify(join(DATA, "base"))}), { changes });
       for (let i = Number(from); ; i++) {
         const text = "x".repeat(50_000);
         await index.add([{ id: "new" + i, text }], [new Float32Array(${DIMENSION}).fill(1)]);
         console.log(i);
         if (i % 3 === 2) await index.delete(["new" + i]);
       }`,
    );
    let last = -1;
    for (let kill = 0; kill < 4; kill++) {
      last = await untilKilled(script, [path, String(last + 2)], 3 + 2 * kill, last);
      const index = await openIndex(source("base"), { changes: new FileChanges(path) });
      for (let i = 1; i < last; i++) {
        const was = index.get(`new${i}`) !== undefined;
        assert.ok(was || i % 3 === 2 || skipped.has(i), `new${i}`);
      }
      skipped.add(last + 1);
    }
    const writer = await openIndex(source("base"), { changes: new FileChanges(path) });
    const second = await openIndex(source("base"), { changes: new FileChanges(path) });
    await writer.add([document("mine")], [VECTOR]);
    await second.add([document("too")], [VECTOR]);
    assert.equal(second.get("mine")?.id, "mine");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

const skipped = new Set<number>();

/** Run until it has told of `count` additions, and kill it; the last one it told of. */
function untilKilled(script: string, args: string[], count: number, last: number): Promise<number> {
  const child = spawn(process.execPath, [script, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  return new Promise((resolve, reject) => {
    let text = "";
    let told = last;
    child.stdout.on("data", (data: Buffer) => {
      text += data.toString();
      const lines = text.split("\n").slice(0, -1);
      if (lines.length) told = Number(lines.at(-1));
      if (lines.length >= count) child.kill("SIGKILL");
    });
    child.on("exit", () => (told > last ? resolve(told) : reject(new Error("wrote nothing"))));
  });
}

test("who listens is told of each change once, until it ends", async () => {
  const changes = new MemoryChanges();
  const index = await openIndex(source("base"), { changes });
  const told: string[] = [];
  const end = index.onChange(() => void told.push(`${index.size - size}`));
  const { size } = index;
  await index.add([document("a"), document("b")], [VECTOR, VECTOR]);
  assert.equal(await index.delete(["none"]), 0);
  await index.delete(["a"]);
  const other = await openIndex(source("base"), { changes });
  await other.add([document("c")], [VECTOR]);
  assert.ok(await index.refresh());
  await index.compact();
  end();
  await index.delete(["b"]);
  assert.deepEqual(told, ["2", "1", "2", "2"]);
  assert.equal((await openIndex(source("base"))).onChange(() => undefined)(), undefined); // for reading only: nothing changes
});

test("a search waits for no writing, and finds what was there before", async () => {
  let open = (): void => undefined;
  const gate = new Promise<void>((resolve) => (open = resolve));
  const order: string[] = [];
  class Slow extends MemoryChanges {
    override async append(...given: Parameters<MemoryChanges["append"]>): Promise<void> {
      order.push("writing");
      await gate;
      await super.append(...given);
    }
  }
  const index = await openIndex(source("base"), { changes: new Slow(await filled(1)) });
  const adding = index.add([document("new")], [VECTOR]).then(() => order.push("written"));
  while (!order.length) await new Promise(setImmediate);
  const searching = index.search("secret", { mode: "lexical" }).then((hits) => order.push(`found ${hits.length}`));
  for (let i = 0; i < 100; i++) await new Promise(setImmediate); // for what would be on its way
  open();
  await Promise.all([adding, searching]);
  assert.deepEqual([order, (await index.search("secret", { mode: "lexical" })).length], [["writing", "found 1", "written"], 2]);
});

test("what is deleted while it is searched for is no hit", async () => {
  const ids = ["n0", "n1", "n2"];
  let deleted = 0;
  const load: LoadProgram = async (language) => {
    if (language === "hindi") deleted = await index.delete(ids.slice(1)); // a text that is read for its phrases needs it
    return loadProgram(language);
  };
  const index: Index = await openWith(load, source("base"), { changes: new MemoryChanges() });
  const filler = Array.from({ length: 500 }, (_, i) => `w${i}`).join(" "); // they are read last
  await index.add(ids.map((id) => ({ id, text: `hopeful ${filler}` })), ids.map(() => VECTOR));
  const hits = await index.search('"hopeful"', { mode: "lexical", k: 100 });
  assert.deepEqual([deleted, hits.map(({ id }) => id).filter((id) => ids.includes(id))], [2, ["n0"]]);
});
