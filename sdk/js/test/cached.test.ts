/** A service worker's cache in the place of a network: it has the listed files, and answers a GET with the whole of one. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Fetch, FetchSource, ZipSource } from "pocketquery";
import { MemoryChanges, openIndex } from "pocketquery/index";
import { load } from "pocketquery/node";
import { load as loadPage, openSource } from "pocketquery/web";
import { unpacked } from "./index/data.js";
import { CONFORMANCE, EXPECTED, FIXTURES } from "./fixtures.js";

const SEARCH = join(CONFORMANCE, "search", "index");

type Files = ReadonlyMap<string, Uint8Array>;

function folder(path: string): Files {
  return new Map(readdirSync(path).map((name) => [name, Uint8Array.from(readFileSync(join(path, name)))]));
}

/** The index that Python applied a delta to. */
function applied(): Files {
  const packed = unpacked(join(CONFORMANCE, "deltas", "applied.json.gz")) as Record<string, string>;
  return new Map(Object.entries(packed).map(([name, data]) => [name, Uint8Array.from(Buffer.from(data, "base64"))]));
}

/** Offline behind a cache of `files`: what was asked for, and a source. */
function cached(files: Files): { asked: string[]; source: FetchSource } {
  const asked: string[] = [];
  const fetcher: Fetch = async (address, init = {}) => {
    const name = new URL(address).pathname.slice("/cached/".length);
    asked.push(`${init.method ?? "GET"} ${name}`);
    const bytes = files.get(name);
    if (bytes === undefined || (init.method ?? "GET") !== "GET") throw new TypeError("Failed to fetch");
    return new Response(bytes as Uint8Array<ArrayBuffer>);
  };
  return { asked, source: new FetchSource("https://example.org/cached", fetcher) };
}

const INDEX_FILES = ["index.json", "documents.sqlite", "vectors-0.u8"];

const INDEXES: [name: string, files: Files, key: string | undefined, names: string[]][] = [
  ["unsigned", folder(join(CONFORMANCE, "index", "base")), undefined, INDEX_FILES],
  ["signed", folder(SEARCH), undefined, [...INDEX_FILES, "signature"]],
  ["signed, with its key", folder(SEARCH), EXPECTED.key, [...INDEX_FILES, "signature"]],
  ["a delta applied", applied(), undefined, [...INDEX_FILES, "signature"]],
  ["a delta applied, with its key", applied(), EXPECTED.key, [...INDEX_FILES, "signature", "delta.json"]],
];

for (const [name, files, publicKey, names] of INDEXES) {
  test(`an index is opened, searched and changed from a cache (${name})`, async () => {
    const { asked, source } = cached(files);
    const changes = new MemoryChanges();
    const index = await openIndex(source, { changes, publicKey });
    const vector = new Float32Array(index.dimension).fill(1);
    await index.add([{ id: "mine", text: "a note of mine" }], [vector]);
    await index.search("note", { mode: "lexical" });
    await index.delete(["mine"]);
    await index.compact();
    await openIndex(source, { changes, publicKey }); // the page is loaded again
    assert.deepEqual([...new Set(asked)].sort(), names.map((file) => `GET ${file}`).sort());
  });
}

test("a bundle is loaded from a cache", async () => {
  for (const publicKey of [undefined, EXPECTED.key]) {
    const { asked, source } = cached(folder(join(FIXTURES, "tiny")));
    const encoder = await load(source, { publicKey, verify: true });
    await encoder.encodeQuery("the sea");
    await encoder.close();
    const { files } = encoder.manifest;
    const names = ["manifest.json", "signature", ...files.keys()];
    assert.deepEqual([...new Set(asked)].sort(), names.map((file) => `GET ${file}`).sort());
  }
});

test("a zip is loaded from a cache that answers a range with the whole file", async () => {
  const zip = Uint8Array.from(readFileSync(join(FIXTURES, "tiny.zip")));
  const { source } = cached(new Map([["tiny.zip", zip]]));
  assert.deepEqual(await source.readRange("tiny.zip", 10, 20), zip.subarray(10, 20));
  assert.equal(await source.size("tiny.zip"), zip.length);
  const encoder = await load(await ZipSource.open(source, "tiny.zip"));
  assert.equal(encoder.dimension, 16);
  await encoder.close();
});

test("what is in the place of a file is an error that says so", async () => {
  const page = "<!DOCTYPE html><title>Sign in</title>";
  const html = { headers: { "content-type": "text/html; charset=utf-8" } };
  const opaque = Object.defineProperties(new Response(null), {
    ok: { value: false }, status: { value: 0 }, type: { value: "opaque" },
  });
  const whole = readFileSync(join(SEARCH, "index.json"), "utf8");
  const cases: [Response, RegExp][] = [
    [new Response(page, html), /index\.json could not be fetched: the answer is a web page; .*start page.*sign in/],
    [opaque, /index\.json could not be fetched: it is of another origin .* without CORS; try again/],
    [new Response(whole.slice(0, 90), { status: 206 }), /index\.json/],
    [new Response(null, { status: 504, statusText: "Gateway Timeout" }), /index\.json could not be fetched: HTTP 504/],
  ];
  for (const [response, message] of cases) {
    const source = new FetchSource("https://example.org/index", async () => response);
    await assert.rejects(openIndex(source), { message });
  }
});

test("the page's own bundle in Node, where fetch reads no files", async () => {
  const message = /manifest\.json could not be fetched from file:.*default\/manifest\.json: .* in Node take pocketquery\/node/;
  await assert.rejects(loadPage(), { name: "ArtifactError", message });
});

test("files under names of their own, as bundlers give them, some inlined", async () => {
  const tiny = folder(join(FIXTURES, "tiny"));
  const inline = (name: string): string => `data:application/json;base64,${Buffer.from(tiny.get(name)!).toString("base64")}`;
  const escaped = (name: string): string => `data:application/json,${encodeURIComponent(Buffer.from(tiny.get(name)!).toString())}`;
  const addresses: Record<string, string | URL> = {
    "manifest.json": inline("manifest.json"),
    "golden.json": escaped("golden.json"),
    signature: "https://example.org/assets/signature-1a2b",
  };
  const served = new Map<string, string>();
  for (const name of ["encoder.onnx", "tokenizer.json", "adapter.safetensors"]) {
    const address = new URL(`https://example.org/assets/${name.replace(".", "-3c4d.")}?v=1`);
    addresses[name] = address;
    served.set(address.href, name);
  }
  served.set("https://example.org/assets/signature-1a2b", "signature");
  const fetcher: Fetch = async (address) => {
    const name = served.get(address);
    return name === undefined ? assert.fail(address) : new Response(tiny.get(name) as Uint8Array<ArrayBuffer>);
  };
  const source = new FetchSource(addresses, fetcher);
  assert.deepEqual((await source.list()).sort(), [...tiny.keys()].sort());
  assert.equal(await source.size("none"), null);
  const encoder = await load(source, { publicKey: EXPECTED.key, verify: true });
  await encoder.close();
  const asked = globalThis.fetch;
  globalThis.fetch = (address) => fetcher(String(address));
  try {
    assert.deepEqual(await (await openSource(addresses)).read("signature"), tiny.get("signature"));
  } finally {
    globalThis.fetch = asked;
  }
});
