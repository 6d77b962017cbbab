/** The SDK in a real browser: onnxruntime-web, WebCrypto, fetch and a worker. */

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { test } from "node:test";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { load } from "pocketquery/node";
import { apart, batchOf, floats, hyperparameters, TRAINED, TRAINING } from "./training/data.js";
import { cosine, EXPECTED, FIXTURES, PACKAGE, REFERENCE } from "./fixtures.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const FOLDER = process.env["POCKETQUERY_EXPECTED"] ?? "";
const ROOTS: Record<string, string> = {
  dist: join(PACKAGE, "dist"),
  test: join(PACKAGE, "test"),
  reference: REFERENCE,
  bundle: REFERENCE,
  fixtures: FIXTURES,
  training: TRAINING,
  "onnxruntime-web": join(PACKAGE, "node_modules", "onnxruntime-web", "dist"),
};
const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
};
const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

async function inPage(work: (page: Page) => Promise<void>): Promise<void> {
  const server = createServer((request, response) => {
    if (request.url === "/readme.html") {
      response.writeHead(200, { "content-type": "text/html" }).end(readmePage());
      return;
    }
    const [, root = "", ...rest] = normalize(decodeURI(request.url ?? "")).split("/");
    const file = join(ROOTS[root] ?? "/nowhere", ...rest);
    const type = TYPES[extname(file)] ?? "application/octet-stream";
    if (!existsSync(file)) response.writeHead(404).end();
    else response.writeHead(200, { "content-type": type }).end(readFileSync(file));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const profile = mkdtempSync(join(tmpdir(), "pocketquery-chromium-"));
  let context: BrowserContext | null = null;
  try {
    const options = { executablePath: CHROMIUM, headless: true, args: ARGUMENTS };
    context = await chromium.launchPersistentContext(profile, options);
    const page = await context.newPage();
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(error.message));
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/test/page.html`);
    await page.waitForFunction("window.page !== undefined");
    await work(page);
    assert.deepEqual(errors, []);
  } finally {
    await context?.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    rmSync(profile, { recursive: true, force: true });
  }
}

/** The README's page. */
function readmePage(): string {
  const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
  return /```html page\n([\s\S]*?)```/.exec(readme)?.[1] ?? assert.fail("no snippet");
}

const call = <T>(page: Page, method: string, ...args: unknown[]): Promise<T> =>
  page.evaluate(`window.page.${method}(...${JSON.stringify(args)})`) as Promise<T>;

interface Encoded {
  ids: number[][];
  vectors: number[][];
  signedBy: string | null;
}

test("a page encodes as Python does", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async (t) => {
  const { texts, key, key_id, tiny, swapped } = EXPECTED;
  await inPage(async (page) => {
    await t.test("the signed tiny bundle, from a folder and a zip", async () => {
      for (const place of ["/fixtures/tiny", "/fixtures/tiny.zip"]) {
        const found = await call<Encoded>(page, "encode", place, texts, { publicKey: key });
        assert.equal(found.signedBy, key_id);
        assert.deepEqual(found.ids, tiny.ids);
        for (const [i, vector] of found.vectors.entries()) {
          assert.ok(cosine(vector, tiny.vectors[i] ?? []) > 0.9999);
        }
      }
    });
    await t.test("with another adapter", async () => {
      const release = "/fixtures/release.safetensors";
      const vectors = await call<number[][]>(page, "swap", "/fixtures/tiny", release, texts);
      for (const [i, vector] of vectors.entries()) {
        assert.ok(cosine(vector, swapped.vectors[i] ?? []) > 0.9999);
      }
    });
    await t.test("the reference bundle: golden texts, and beside Node", async () => {
      const report = await call<{ golden: { leastCosine: number } }>(page, "verify", "/reference");
      assert.ok(report.golden.leastCosine >= 0.999);
      const golden = JSON.parse(readFileSync(join(REFERENCE, "golden.json"), "utf8")) as {
        texts: { text: string }[];
      };
      // With Python's expectations at hand, on all of their texts.
      const more = FOLDER ? (JSON.parse(readFileSync(join(FOLDER, "vectors.json"), "utf8")) as string[]) : [];
      const all = [...golden.texts.map(({ text }) => text), ...texts, ...more];
      const found = await call<Encoded>(page, "encode", "/reference", all);
      const encoder = await load(REFERENCE);
      const cosines = (await encoder.encode(all)).map((vector, i) => cosine(vector, found.vectors[i] ?? []));
      await encoder.close();
      const mean = cosines.reduce((sum, value) => sum + value, 0) / cosines.length;
      t.diagnostic(`${all.length} texts: cosine mean ${mean}, least ${Math.min(...cosines)}`);
      assert.ok(mean >= 0.9999);
      assert.ok(Math.min(...cosines) >= 0.999);
    });
    await t.test("the page of the README", async () => {
      const own = await page.context().newPage();
      await own.goto(new URL("/readme.html", page.url()).href);
      await own.waitForFunction("document.body.textContent.includes('384 dimensions')");
      await own.close();
    });
    await t.test("twenty training steps give Python's tensors", async () => {
      const plain = (value: object): object =>
        JSON.parse(JSON.stringify(value, (_, item: unknown) => {
          if (typeof item === "bigint") return Number(item);
          return ArrayBuffer.isView(item) ? Array.from(item as unknown as number[]) : item;
        })) as object;
      const batches = TRAINED.steps.batches.map((fed) => plain(batchOf(fed)));
      const found = await call<{ losses: number[]; version: string; online: [string, number[]][] }>(
        page, "train", "/training/bundle", batches, hyperparameters(),
      );
      assert.ok(apart(found.losses, TRAINED.steps.losses.map(([loss = Number.NaN]) => loss)) < 1e-4);
      const apartness = found.online.map(([name, data]) => {
        return apart(data, floats(TRAINED.steps.online[name] ?? assert.fail(name)));
      });
      t.diagnostic(`20 steps in the browser: tensors within ${Math.max(...apartness)}`);
      assert.ok(Math.max(...apartness) < 1e-4);
      assert.match(found.version, /\+local$/);
    });
    await t.test("in a worker", async () => {
      const found = await call<{ vectors: number[][]; refused: string }>(
        page, "inWorker", "/reference", texts,
      );
      assert.equal(found.refused, "InvalidInputError");
      for (const [i, vector] of found.vectors.entries()) {
        assert.ok(cosine(vector, EXPECTED.reference.vectors[i] ?? []) > 0.999);
      }
    });
  });
});
