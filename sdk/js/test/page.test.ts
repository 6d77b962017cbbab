/** The SDK in a real browser: its own runtime and onnxruntime-web, WebCrypto, fetch and a worker. */

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { load } from "pocketquery/node";
import { call, CHROMIUM, inPage } from "./browser.js";
import { apart, batchOf, floats, hyperparameters, TRAINED } from "./training/data.js";
import { cosine, EXPECTED, REFERENCE } from "./fixtures.js";

const FOLDER = process.env["POCKETQUERY_EXPECTED"] ?? "";

interface Encoded {
  ids: number[][];
  vectors: number[][];
  signedBy: string | null;
}

test("a page encodes as Python does", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async (t) => {
  const { texts, key, key_id, tiny, swapped } = EXPECTED;
  await inPage("page.html", async (page) => {
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
    await t.test("without onnxruntime, the same in a worker", async () => {
      for (const [place, { vectors }] of [["/fixtures/tiny", tiny], ["/reference", EXPECTED.reference]] as const) {
        const [found, beside] = await call<number[][][]>(page, "own", place, texts);
        assert.deepEqual(beside, found);
        for (const [i, vector] of (found ?? []).entries()) assert.ok(cosine(vector, vectors[i] ?? []) > 0.9999);
      }
    });
    await t.test("where onnxruntime's files are not served, the error says so", async () => {
      const problem = await call<string>(page, "withoutItsFiles", "/fixtures/tiny");
      assert.match(problem, /^MissingExtraError: .*: onnxruntime cannot start here: .*wasmPaths/);
    });
    await t.test("with another adapter, also in onnxruntime's own worker", async () => {
      const release = "/fixtures/release.safetensors";
      for (const proxy of [false, true]) {
        const vectors = await call<number[][]>(page, "swap", "/fixtures/tiny", release, texts, proxy);
        for (const [i, vector] of vectors.entries()) {
          assert.ok(cosine(vector, swapped.vectors[i] ?? []) > 0.9999);
        }
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
    await t.test("twenty training steps give Python's tensors, also in onnxruntime's own worker", async () => {
      const plain = (value: object): object =>
        JSON.parse(JSON.stringify(value, (_, item: unknown) => {
          if (typeof item === "bigint") return Number(item);
          return ArrayBuffer.isView(item) ? Array.from(item as unknown as number[]) : item;
        })) as object;
      const batches = TRAINED.steps.batches.map((fed) => plain(batchOf(fed)));
      for (const proxy of [false, true]) {
        const found = await call<{ losses: number[]; version: string; online: [string, number[]][] }>(
          page, "train", "/training/bundle", batches, hyperparameters(), proxy,
        );
        assert.ok(apart(found.losses, TRAINED.steps.losses.map(([loss = Number.NaN]) => loss)) < 1e-4);
        const apartness = found.online.map(([name, data]) => {
          return apart(data, floats(TRAINED.steps.online[name] ?? assert.fail(name)));
        });
        t.diagnostic(`20 steps in the browser: tensors within ${Math.max(...apartness)}`);
        assert.ok(Math.max(...apartness) < 1e-4);
        assert.match(found.version, /\+local$/);
      }
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
    await t.test("in a worker whose script is not there", async () => {
      const refused = await call<string>(page, "withoutScript");
      assert.match(refused, /^PocketQueryError: the worker failed: its script, or a module it imports, cannot be loaded/);
    });
  });
});
