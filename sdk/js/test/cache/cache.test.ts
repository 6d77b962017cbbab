/** Files that stay on the device: what is asked of a server that counts, and what a cache without half of it gives. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { mock, test } from "node:test";
import { ArtifactError, FetchSource, type FileCache, type FileSource, MemorySource, ZipSource } from "pocketquery";
import { openIndex } from "pocketquery/index";
import { load } from "pocketquery/node";
import { withCache } from "../../dist/files/cache/cache.js";
import { CONFORMANCE, EXPECTED, FIXTURES, read } from "../fixtures.js";

const HEAD = "manifest.json";
const PIECE = 1 << 19;

type Files = Map<string, Uint8Array>;

const sha = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

function bytesOf(seed: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = seed + i * 7 + (i >> 9);
  return bytes;
}

/** A version: large files of these seeds, and the head that names them. */
function version(...seeds: number[]): Files {
  const files: Files = new Map(seeds.map((seed, i) => [`large${i}.bin`, bytesOf(seed, 2_000_000 + i)]));
  const named = Object.fromEntries([...files].map(([name, bytes]) => [name, { sha256: sha(bytes), bytes: bytes.length }]));
  files.set(HEAD, new TextEncoder().encode(JSON.stringify({ files: named })));
  return files;
}

/** A server of files that counts what it sends, and breaks off a file's first answer behind `breakAt` bytes. */
class Server {
  asked: string[] = [];
  sent = 0;
  breakAt: number | null = null;
  hasRanges = true;
  address = "";

  constructor(public files: Files) {}

  async during(work: (source: () => FileSource) => Promise<void>): Promise<void> {
    const server = createServer((request, response) => this.#answer(request, response)).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    this.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/files`;
    try {
      await work(() => new FetchSource(this.address));
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  /** What was asked for since the last call. */
  taken(): string[] {
    return this.asked.splice(0);
  }

  #answer({ url = "", headers }: IncomingMessage, response: ServerResponse): void {
    const name = url.slice("/files/".length);
    const [, begin] = /^bytes=(\d+)-/.exec(headers.range ?? "") ?? [];
    this.asked.push(begin === undefined ? name : `${name} from ${begin}`);
    const bytes = this.files.get(name);
    if (bytes === undefined) return void response.writeHead(404).end();
    const isRange = begin !== undefined && this.hasRanges;
    const body = isRange ? bytes.subarray(Number(begin)) : bytes;
    response.writeHead(isRange ? 206 : 200, { "content-length": body.length });
    if (this.breakAt === null || name === HEAD) {
      this.sent += body.length;
      return void response.end(body);
    }
    response.write(body.subarray(0, this.breakAt), () => setImmediate(() => response.destroy()));
    this.breakAt = null;
  }
}

/** Every file of the version that the source has, read as a loader does, head first. */
async function readAll(source: FileSource, cache: FileCache | undefined): Promise<Files> {
  return withCache(source, HEAD, cache, async (cached) => {
    const found: Files = new Map([[HEAD, await cached.read(HEAD)]]);
    const { files } = JSON.parse(new TextDecoder().decode(found.get(HEAD))) as { files: Record<string, { bytes: number }> };
    for (const [name, { bytes }] of Object.entries(files)) found.set(name, await cached.read(name, { limit: bytes + 1 }));
    return found;
  });
}

function same(found: Files, expected: Files): void {
  const hashes = (files: Files): string[] => [...files].map(([name, bytes]) => `${name} ${sha(bytes)}`).sort();
  assert.deepEqual(hashes(found), hashes(expected));
}

const pieces = (cache: Map<string, Uint8Array>, bytes: Uint8Array): string[] =>
  [...cache.keys()].filter((key) => key.startsWith(sha(bytes))).sort();

test("files are fetched once; then the head alone is asked for, and nothing where nobody answers", async () => {
  const files = version(1, 2);
  const cache = new Map<string, Uint8Array>();
  const server = new Server(files);
  await server.during(async (source) => {
    same(await readAll(source(), cache), files);
    assert.deepEqual(server.taken(), [HEAD, "large0.bin", "large1.bin"]);
    same(await readAll(source(), cache), files);
    assert.deepEqual(server.taken(), [HEAD]);
  });
  for (const key of cache.keys()) assert.match(key, /^[0-9a-z-]{1,80}$/);
  for (const bytes of cache.values()) assert.ok(bytes.length <= PIECE && bytes.buffer.byteLength === bytes.length);
  same(await readAll(new FetchSource(server.address), cache), files);
  await assert.rejects(readAll(new FetchSource(server.address), new Map()), ArtifactError);
});

test("a download that broke off goes on where it ended, also where the server knows no ranges", async () => {
  const files = version(1);
  for (const hasRanges of [true, false]) {
    const cache = new Map<string, Uint8Array>();
    const server = Object.assign(new Server(files), { breakAt: 1_300_000, hasRanges });
    await server.during(async (source) => {
      await assert.rejects(readAll(source(), cache), /large0\.bin could not be fetched/);
      assert.equal(pieces(cache, files.get("large0.bin")!).length, 2);
      assert.deepEqual(server.taken(), [HEAD, "large0.bin"]);
      const seen: number[] = [];
      const found = await withCache(source(), HEAD, cache, async (cached) => {
        await cached.read(HEAD);
        return cached.read("large0.bin", { onBytes: (bytes) => seen.push(bytes) });
      });
      assert.equal(sha(found), sha(files.get("large0.bin")!));
      assert.deepEqual(server.taken(), [HEAD, `large0.bin from ${2 * PIECE}`]);
      assert.ok(seen[0]! >= 2 * PIECE && seen.at(-1) === 2_000_000, `${seen}`);
      assert.equal(pieces(cache, found).length, 4);
      await readAll(source(), cache);
      assert.deepEqual(server.taken(), [HEAD]);
    });
  }
});

test("what was evicted halfway, cut or changed on the device is fetched again, and no more than that", async () => {
  const files = version(1, 2);
  const bytes = files.get("large0.bin")!;
  const cache = new Map<string, Uint8Array>();
  const server = new Server(files);
  await server.during(async (source) => {
    await readAll(source(), cache);
    const changed = cache.get(`${sha(bytes)}-0`)!.slice();
    changed[9]! ^= 1;
    const cases: [harm: () => void, asked: string[]][] = [
      [() => cache.delete(`${sha(bytes)}-1`), [`large0.bin from ${PIECE}`]],
      [() => cache.delete(`${sha(bytes)}-0`), ["large0.bin"]],
      [() => cache.set(`${sha(bytes)}-2`, new Uint8Array(9)), [`large0.bin from ${2 * PIECE}`]],
      [() => cache.set(`${sha(bytes)}-0`, changed), ["large0.bin"]],
      [() => cache.set(`${sha(bytes)}-0`, changed) && cache.delete(`${sha(bytes)}-3`), [`large0.bin from ${3 * PIECE}`, "large0.bin"]],
      [() => cache.forEach((_, key) => /^[0-9a-f]{64}-/.test(key) && cache.delete(key)), ["large0.bin", "large1.bin"]],
      [() => cache.forEach((_, key) => key.startsWith("head-") && cache.set(key, bytesOf(1, 90))), []],
    ];
    server.taken();
    for (const [harm, asked] of cases) {
      harm();
      same(await readAll(source(), cache), files);
      assert.deepEqual(server.taken(), [HEAD, ...asked]);
      same(await readAll(source(), cache), files);
      assert.deepEqual(server.taken(), [HEAD], "whole again");
    }
  });
});

test("a new version takes the place of the old one once it is there; until then the old one opens", async () => {
  const [before, after] = [version(1, 2), version(1, 3)];
  const cache = new Map<string, Uint8Array>();
  const server = new Server(before);
  await server.during(async (source) => {
    await readAll(source(), cache);
    await readAll(new MemorySource(version(7), "another place"), cache);
    const size = cache.size;
    server.files = after;
    server.breakAt = 600_000;
    server.taken();
    await assert.rejects(readAll(source(), cache), /large1\.bin could not be fetched/);
    assert.deepEqual(server.taken(), [HEAD, "large1.bin"], "what both versions have is not fetched");
    server.files = new Map();
    same(await readAll(offline(server), cache), before);
    await assert.rejects(readAll(source(), cache), /manifest\.json is missing/, "withdrawn is not offline");
    server.files = after;
    server.taken();
    same(await readAll(source(), cache), after);
    assert.deepEqual(server.taken(), [HEAD, `large1.bin from ${PIECE}`]);
    assert.equal(cache.size, size, "the old version is removed, other places are not");
    assert.deepEqual(pieces(cache, before.get("large1.bin")!), []);
    server.files = new Map([...after, ["large0.bin", before.get("large1.bin")!]]); // of another version
    cache.clear();
    const found = await readAll(source(), cache);
    assert.equal(sha(found.get("large0.bin")!), sha(before.get("large1.bin")!), "the reader says what is wrong with it");
  });
});

function offline({ address }: Server): FileSource {
  return new FetchSource(address, () => Promise.reject(new TypeError("Failed to fetch")));
}

test("two loads at once do each other no harm", async () => {
  const [before, after] = [version(1, 2), version(4, 2)];
  const cache = new Map<string, Uint8Array>();
  const server = new Server(before);
  await server.during(async (source) => {
    const both = await Promise.all([readAll(source(), cache), readAll(source(), cache)]);
    both.forEach((found) => same(found, before));
    const slow = readAll(source(), cache);
    server.files = after;
    const [first, second] = await Promise.all([slow.catch(() => null), readAll(source(), cache)]);
    assert.ok(first === null || sha(first.get("large1.bin")!) === sha(before.get("large1.bin")!));
    same(second, after);
    same(await readAll(source(), cache), after);
  });
});

test("storage that is denied, or full, is a warning that says so, and nothing else", async (t) => {
  const files = version(1);
  const denied = { keys: refuse, get: refuse, set: refuse, delete: refuse };
  const full = Object.assign(new Map<string, Uint8Array>(), { set: refuse });
  const warn = mock.method(console, "warn", () => undefined);
  t.after(() => warn.mock.restore());
  const warned = (): string[] => {
    const said = warn.mock.calls.map(({ arguments: [text] }: { arguments: unknown[] }) => String(text));
    warn.mock.resetCalls();
    return said;
  };
  for (const cache of [denied, full]) {
    const source = new MemorySource(files, "here");
    same(await readAll(source, cache), files);
    const said = warned();
    assert.deepEqual(said, ["here: its files cannot be kept on this device, and are fetched at each load: no room here"]);
  }
  const encoder = await load(new MemorySource(folder(join(FIXTURES, "tiny")), "tiny"), { cache: true });
  await encoder.close();
  const [said] = warned();
  assert.match(said ?? "", /^tiny: its files cannot be kept on this device, .*pocketquery files: this browser, or this window, has no IndexedDB/);
});

function refuse(): never {
  throw new Error("no room here");
}

const folder = (path: string): Files =>
  new Map(readdirSync(path).map((name) => [name, Uint8Array.from(readFileSync(join(path, name)))]));

test("an encoder and an index are opened from what is kept, signatures with them", async () => {
  const places: [string, Files][] = [["bundle", folder(join(FIXTURES, "tiny"))], ["index", folder(join(CONFORMANCE, "search", "index"))]];
  const cache = new Map<string, Uint8Array>();
  const asked: string[] = [];
  let isOffline = false;
  const source = (place: string, files: Files): FileSource =>
    new FetchSource(`https://example.org/${place}?v=1`, async (address, init) => {
      const name = new URL(address).pathname.split("/").at(-1) ?? "";
      asked.push(`${place}/${name}${init?.cache === "no-cache" ? " anew" : ""}`);
      if (isOffline) throw new TypeError("Failed to fetch");
      const bytes = files.get(name);
      return bytes === undefined ? new Response(null, { status: 404 }) : new Response(bytes as Uint8Array<ArrayBuffer>);
    });
  const open = async (): Promise<number[]> => {
    const [[, bundle], [, index]] = places as [[string, Files], [string, Files]];
    const encoder = await load(source("bundle", bundle), { cache, publicKey: EXPECTED.key, verify: true });
    await encoder.close();
    return [encoder.dimension, (await openIndex(source("index", index), { cache, publicKey: EXPECTED.key })).size];
  };
  const first = await open();
  assert.ok(asked.includes("bundle/signature anew") && asked.includes("index/signature anew") && asked.length === 10, `${asked}`);
  const kept = cache.size;
  for (isOffline of [false, true]) {
    asked.length = 0;
    assert.deepEqual(await open(), first);
    assert.deepEqual(asked, ["bundle/manifest.json anew", "index/index.json anew"]);
    assert.equal(cache.size, kept);
  }
});

test("each file is hashed once, and one that was changed on the device is fetched again before it is read", async (t) => {
  const digest = t.mock.method(crypto.subtle, "digest");
  const [bundle, index] = [folder(join(FIXTURES, "tiny")), folder(join(CONFORMANCE, "search", "index"))];
  const cache = new Map<string, Uint8Array>();
  const open = async (): Promise<number[]> => {
    digest.mock.resetCalls();
    const encoder = await load(new MemorySource(bundle, "bundle"), { cache });
    const vector = await encoder.encode("the sea");
    await encoder.close();
    const { size } = await openIndex(new MemorySource(index, "index"), { cache });
    return [...vector, size];
  };
  /** How often bytes of this length were hashed. */
  const hashed = (file: Uint8Array): number =>
    digest.mock.calls.filter(({ arguments: [, data] }) => data.byteLength === file.length).length;
  const large = [["encoder.onnx", bundle], ["documents.sqlite", index]].map(([name, files]) => (files as Files).get(name as string)!);
  const first = await open();
  assert.deepEqual(large.map(hashed), [1, 1]);
  for (const file of large) {
    assert.deepEqual(await open(), first);
    assert.deepEqual(large.map(hashed), [1, 1]);
    const key = `${sha(file)}-0`;
    const changed = cache.get(key)!.slice();
    changed[changed.length >> 1]! ^= 1;
    cache.set(key, changed);
    assert.deepEqual(await open(), first);
    assert.equal(hashed(file), 2); // what was there, and what came
    assert.equal(sha(cache.get(key)!), sha(file.subarray(0, PIECE)));
  }
});

test("an index of version 1, or one that is being written, is not kept, and takes nothing away", async () => {
  const files = folder(join(CONFORMANCE, "index", "base"));
  const described = JSON.parse(new TextDecoder().decode(files.get("index.json"))) as object;
  const other = (change: object): FileSource =>
    new MemorySource(new Map([...files, ["index.json", new TextEncoder().encode(JSON.stringify({ ...described, ...change }))]]), "place");
  const cache = new Map<string, Uint8Array>();
  const refused = { name: "UnsupportedVersionError", message: /format_version is 1/ };
  await assert.rejects(openIndex(other({ format_version: 1 }), { cache }), refused);
  await openIndex(other({ state: "writing" }), { cache });
  assert.equal(cache.size, 0);
  await openIndex(new MemorySource(files, "place"), { cache });
  const kept = new Map(cache);
  await assert.rejects(openIndex(other({ format_version: 1 }), { cache }), refused);
  await openIndex(other({ state: "writing" }), { cache });
  assert.deepEqual(cache, kept);
});

test("what is no cache, or cannot be kept, is an error that says so", async () => {
  for (const [cache, says] of [["", "an empty text"], [7, "a number"], [null, "null"], [{ get: refuse }, "a Object"]] as const) {
    const message = new RegExp(`^cache is ${says}, expected true, the name of a database, or an object with keys, get, set and delete`);
    await assert.rejects(load(new MemorySource({}), { cache: cache as never }), { name: "InvalidInputError", message });
    await assert.rejects(openIndex(new MemorySource({}), { cache: cache as never }), { name: "InvalidInputError", message });
  }
  const zip = await ZipSource.open(new MemorySource({ "tiny.zip": read("tiny.zip") }), "tiny.zip");
  const message = /^tiny\.zip: a cache keeps the files of a folder, and this is a zip.*unpacked/;
  await assert.rejects(load(zip, { cache: new Map() }), { name: "InvalidInputError", message });
});
