import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { ArtifactError, ArtifactNotFoundError, FetchSource, InvalidInputError, type Progress } from "pocketquery";
import { openSource } from "pocketquery/web";
import { read, TINY_FILES } from "./fixtures.js";

const CONTENT = Buffer.from(Uint8Array.from({ length: 300_000 }, (_, i) => i % 251));

async function serve(listener: RequestListener, work: (address: string) => Promise<void>): Promise<void> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}/some/bundle`);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

const plain: RequestListener = (request, response) => {
  if (request.url !== "/some/bundle/a%20b.bin") {
    response.writeHead(404).end();
    return;
  }
  const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
  const body = range ? CONTENT.subarray(Number(range[1]), Number(range[2]) + 1) : CONTENT;
  if (range && body.length === 0) response.writeHead(416).end();
  else response.writeHead(range ? 206 : 200, { "content-length": body.length }).end(request.method === "HEAD" ? "" : body);
};

const compressing: RequestListener = (request, response) => {
  response.writeHead(200, { "content-encoding": "gzip" });
  response.end(request.method === "HEAD" ? "" : gzipSync(CONTENT)); // and knows no ranges
};

for (const [name, listener] of Object.entries({ plain, compressing })) {
  test(`files of a server are read (${name})`, async () => {
    await serve(listener, async (address) => {
      const source = new FetchSource(address);
      const seen: number[] = [];
      const onBytes = (bytes: number): void => void seen.push(bytes);
      assert.equal(await source.size("a b.bin"), CONTENT.length);
      assert.deepEqual(Buffer.from(await source.read("a b.bin", { onBytes })), CONTENT);
      assert.equal(seen.at(-1), CONTENT.length);
      const first = Buffer.from(await source.read("a b.bin", { limit: 10 }));
      assert.deepEqual(first, CONTENT.subarray(0, 10));
      const span = Buffer.from(await source.readRange("a b.bin", 1000, 1007));
      assert.deepEqual(span, CONTENT.subarray(1000, 1007));
      assert.equal((await source.readRange("a b.bin", 300_000, 300_001)).length, 0);
      await assert.rejects(source.list(), InvalidInputError);
    });
  });
}

test("a polyfill's signal is followed by one of the platform's, which fetch takes", async () => {
  const signal = Object.assign(new EventTarget(), { aborted: false });
  const source = new FetchSource("https://host/bundle", async (_, { signal: given } = {}) => {
    assert.ok(given instanceof AbortSignal);
    Object.assign(signal, { aborted: true }).dispatchEvent(new Event("abort"));
    given.throwIfAborted();
    return new Response("");
  });
  const given = signal as unknown as AbortSignal;
  await assert.rejects(source.read("file", { signal: given }), { name: "AbortError" });
  await assert.rejects(source.read("file", { signal: given }), { name: "AbortError" });
});

test("what an address asks for is asked for with each file", async () => {
  const asked: string[] = [];
  const fetcher = async (address: string): Promise<Response> => {
    asked.push(address);
    return new Response("a");
  };
  await new FetchSource("https://example.org/app/index?v=3", fetcher).read("index.json");
  await new FetchSource("https://example.org/app/index/?v=3#part", fetcher).read("a b");
  assert.deepEqual(asked, ["https://example.org/app/index/index.json?v=3", "https://example.org/app/index/a%20b?v=3"]);
  assert.throws(() => new FetchSource("/index"), (error) => error instanceof InvalidInputError && /^\/index: no address/.test(error.message));
});

test("what a server does not give is an error of ours", async () => {
  await serve(plain, async (address) => {
    const source = new FetchSource(address);
    assert.equal(await source.size("x"), null);
    await assert.rejects(source.read("x"), ArtifactNotFoundError);
    const signal = AbortSignal.abort();
    await assert.rejects(source.read("a b.bin", { signal }), { name: "AbortError" });
  });
  const broken: RequestListener = (_, response) => void response.writeHead(500).end();
  await serve(broken, async (address) => {
    await assert.rejects(new FetchSource(address).read("x"), /could not be fetched: HTTP 500 Internal/);
  });
  await assert.rejects(new FetchSource("http://127.0.0.1:1/").read("x"), ArtifactError);
});

test("a zip is fetched at its address, as it stands", async () => {
  const asked: string[] = [];
  const there: RequestListener = ({ url = "" }, response) => {
    asked.push(url);
    response.end(read("tiny.zip"));
  };
  const places = ["b.zip?v=3", "b.zip?sig=a/b.zip", "my%20b%2Fc.zip", "%ff.zip", "get?file=b.zip"];
  await serve(there, async (address) => {
    const seen: Progress[] = [];
    await openSource(`${address}/b.zip`, { onProgress: (now) => void seen.push(now) });
    const size = read("tiny.zip").length;
    assert.deepEqual(seen.at(-1), { file: "b.zip", bytes: size, size });
    asked.length = 0;
    for (const place of [...places, "b.zip#x", new URL("my bundle.zip", `${address}/`)]) {
      const zip = await openSource(typeof place === "string" ? `${address}/${place}` : place);
      assert.deepEqual((await zip.list()).sort(), TINY_FILES);
    }
  });
  const found = [...places, "b.zip", "my%20bundle.zip"];
  assert.deepEqual(asked, found.map((place) => `/some/bundle/${place}`));
  const gone: RequestListener = (_, response) => void response.writeHead(404).end();
  await serve(gone, async (address) => {
    const missing = { name: "ArtifactNotFoundError", message: /some\/bundle\/: my b\.zip is missing/ };
    await assert.rejects(openSource(`${address}/my%20b.zip?v=3`), missing);
  });
});
