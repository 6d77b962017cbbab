/** A cache in a real browser: IndexedDB in pages and workers, tabs, full storage, bytes counted at the server. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { type Answer, call, CHROMIUM, inPage } from "../browser.js";
import { CONFORMANCE, PACKAGE } from "../fixtures.js";

const PLACES: Record<string, string> = {
  bundle: join(PACKAGE, "default"),
  index: join(CONFORMANCE, "search", "index"),
};
const QUERY = "how do plants make sugar";
const FOUND = { hit: "d0", dimension: 384, warnings: [] };

/** The files under /files, as any server of files sends them, with what it sent of them. */
class Counted {
  sent: Record<string, number> = {};
  /** Send so many bytes of the encoder, and then no more. */
  stallAt = Number.POSITIVE_INFINITY;
  isDown = false;

  readonly answer: Answer = ({ url = "", headers }, response) => {
    const [, root, place = "", name = ""] = url.split("?", 1)[0]!.split("/");
    if (root !== "files") return false;
    if (this.isDown) {
      response.destroy();
      return true;
    }
    const path = join(PLACES[place] ?? "/nowhere", name);
    if (!existsSync(path)) {
      response.writeHead(404).end();
      return true;
    }
    const bytes = readFileSync(path);
    const etag = `"${createHash("sha256").update(bytes).digest("hex")}"`;
    const [, begin] = /^bytes=(\d+)-/.exec(headers.range ?? "") ?? [];
    const isSame = headers["if-none-match"] === etag;
    const body = isSame ? bytes.subarray(0, 0) : bytes.subarray(Number(begin ?? 0));
    const status = isSame ? 304 : begin === undefined ? 200 : 206;
    const isCut = name === "encoder.onnx" && body.length > this.stallAt;
    this.sent[name] = (this.sent[name] ?? 0) + (isCut ? this.stallAt : body.length);
    const range = begin === undefined ? {} : { "content-range": `bytes ${begin}-${bytes.length - 1}/${bytes.length}` };
    response.writeHead(status, { etag, "cache-control": "no-cache", ...(!isSame && { "content-length": body.length }), ...range });
    if (isCut) response.write(body.subarray(0, this.stallAt));
    else response.end(body);
    return true;
  };

  /** What was sent since the last call. */
  taken(): Record<string, number> {
    const { sent } = this;
    this.sent = {};
    return sent;
  }
}

/** Empty the browser's own cache of answers, of which a page knows nothing. */
async function forgetAnswers(page: Page): Promise<void> {
  await (await page.context().newCDPSession(page)).send("Network.clearBrowserCache");
}

async function another(page: Page): Promise<Page> {
  const tab = await page.context().newPage();
  await tab.goto(page.url());
  await tab.waitForFunction("window.page !== undefined");
  return tab;
}

test("a page keeps the built-in encoder and an index", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async (t) => {
  const server = new Counted();
  const work = async (page: Page): Promise<void> => {
    await t.test("a tab that is closed while it writes leaves what arrived, and the next one goes on there", async () => {
      server.stallAt = 3_000_000;
      const tab = await another(page);
      const loading = call(tab, "inPage", QUERY).catch(() => "closed");
      while (!(await call<string[]>(page, "keys")).some((key) => key.endsWith("-2"))) await page.waitForTimeout(20);
      await tab.close();
      assert.equal(await loading, "closed");
      server.stallAt = Number.POSITIVE_INFINITY;
      server.taken();
      assert.deepEqual(await call(page, "inPage", QUERY), FOUND);
      const rest = server.taken()["encoder.onnx"] ?? 0;
      assert.ok(rest > 2_000_000 && rest < 4_000_000, `${rest} bytes of the encoder`);
    });
    await t.test("again it takes no byte, in the page, in another tab and in a worker", async () => {
      const before = await call<string[]>(page, "keys");
      server.taken();
      const tab = await another(page);
      assert.deepEqual(await call(page, "inPage", QUERY), FOUND);
      assert.deepEqual(await call(tab, "inPage", QUERY), FOUND);
      assert.deepEqual(await call(tab, "inWorker", QUERY), FOUND);
      assert.deepEqual(server.taken(), { "manifest.json": 0, "index.json": 0 });
      await forgetAnswers(tab);
      assert.deepEqual(await call(tab, "inPage", QUERY), FOUND);
      assert.deepEqual(Object.keys(server.taken()), ["manifest.json", "index.json"]);
      server.isDown = true;
      assert.deepEqual(await call(tab, "inPage", QUERY), FOUND);
      server.isDown = false;
      assert.deepEqual((await call<string[]>(page, "keys")).sort(), before.sort());
      await tab.close();
    });
    await t.test("what was evicted halfway is fetched again", async () => {
      assert.ok((await call<number>(page, "evict", "-5")) > 0);
      await forgetAnswers(page);
      server.taken();
      assert.deepEqual(await call(page, "inPage", QUERY), FOUND);
      const { "encoder.onnx": encoder, ...others } = server.taken();
      const size = readFileSync(join(PLACES["bundle"]!, "encoder.onnx")).length;
      assert.deepEqual([encoder, Object.keys(others)], [size - 5 * 2 ** 19, ["manifest.json", "index.json"]]);
    });
    await t.test("two tabs and a worker at once, from nothing", async () => {
      await call(page, "destroy");
      const tab = await another(page);
      const all = [call(page, "inPage", QUERY), call(tab, "inPage", QUERY), call(page, "inWorker", QUERY)];
      assert.deepEqual(await Promise.all(all), [FOUND, FOUND, FOUND]);
      server.taken();
      assert.deepEqual(await call(tab, "inWorker", QUERY), FOUND);
      assert.deepEqual(Object.keys(server.taken()), ["manifest.json", "index.json"]);
    });
  };
  await inPage("cache/cache.html", work, server.answer);
});

test("storage that is full, and storage that is denied, are warnings", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async () => {
  const work = async (page: Page): Promise<void> => {
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Storage.overrideQuotaForOrigin", { origin: new URL(page.url()).origin, quotaSize: 2_000_000 });
    const full = await call<typeof FOUND>(page, "inPage", QUERY);
    assert.match(full.warnings.join(), /^\/files\/bundle: its files cannot be kept on this device, .*no space left .* of the \d+ bytes/);
    assert.deepEqual({ ...full, warnings: [] }, FOUND);
    const denied = await call<typeof FOUND>(page, "denied", QUERY);
    assert.equal(denied.warnings.length, 2);
    assert.match(denied.warnings.join(), /index: its files cannot be kept on this device, .*has no IndexedDB/);
    assert.deepEqual({ ...denied, warnings: [] }, FOUND);
  };
  await inPage("cache/cache.html", work, new Counted().answer);
});
