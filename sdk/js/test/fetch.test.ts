import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { ArtifactError, ArtifactNotFoundError, FetchSource, InvalidInputError } from "pocketquery";

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
