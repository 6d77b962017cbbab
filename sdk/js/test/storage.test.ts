/** What a page keeps, in a real browser: the query store and an index's changes in IndexedDB. */

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { call, CHROMIUM, inPage } from "./browser.js";
import { CONFORMANCE } from "./fixtures.js";

interface Step {
  result?: boolean;
  consent: boolean;
  renewed: boolean;
  kept: unknown[];
}

const LIVES = ["store", "set_back"].map((name) => {
  const found = gunzipSync(readFileSync(join(CONFORMANCE, "store", `${name}.json.gz`)));
  return (JSON.parse(found.toString("utf8")) as { lives: Step[][] }).lives;
});

async function quota(page: Page, quotaSize: number): Promise<void> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Storage.overrideQuotaForOrigin", { origin: new URL(page.url()).origin, quotaSize });
}

async function reloaded(page: Page): Promise<void> {
  await page.reload();
  await page.waitForFunction("window.page !== undefined");
}

test("what a page keeps in IndexedDB", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async (t) => {
  await inPage("storage.html", async (page) => {
    await t.test("a store lives as Python's does", async () => {
      for (const [file, i] of [[0, 1], [0, 3], [0, 5], [1, 8]] as const) {
        const steps = LIVES[file]?.[i] ?? [];
        const limits = { maxRows: 6, maxAgeDays: 30, maxBytes: 220 };
        const found = await call<Step[]>(page, "lived", `life ${file} ${i}`, steps, limits);
        const expected = steps.map(({ result, consent, renewed, kept }) => ({
          ...(result !== undefined && { result }), consent, renewed, kept,
        }));
        assert.deepEqual(found, expected);
      }
    });
    await t.test("two tabs share a store, which outlasts a reload, and can be erased", async () => {
      assert.deepEqual(await call(page, "together"), [20, [1, 2]]);
      await reloaded(page);
      assert.deepEqual(await call(page, "remembered"), [true, 20, [1, 2], 0, null, false]);
    });
    await t.test("a device has one key, which no script reads, and one memory; both outlast a reload", async () => {
      interface Found { keys: number[][]; signed: boolean; readable: string; put: boolean[]; file: number[]; nonces: string[]; kept: boolean; readings: string[] }
      const found = await call<Found>(page, "device");
      const [key, other] = found.keys;
      assert.deepEqual([key, found.signed, found.put, found.file], [other, true, [false, true], [7]]);
      assert.match(found.readable, /^InvalidAccessError: .*not extractable/);
      assert.equal(found.nonces[0], found.nonces[1]);
      assert.deepEqual([found.kept, found.readings], [true, ["charging", "idle", "temperatureC", "unmetered"]]);
      await reloaded(page);
      assert.deepEqual(await call(page, "deviceAgain"), [key, [7], found.nonces[0], null]);
    });
    await t.test("a damaged store is refused and can be destroyed", async () => {
      const [problem, consent] = await call<[string, boolean]>(page, "damaged");
      assert.match(problem, /^CorruptArtifactError: damaged is damaged, or another program's/);
      assert.equal(consent, false);
    });
    await t.test("an index's changes outlast a reload; another tab's are not overwritten", async () => {
      const { size, refused, log } = await call<{ size: number; refused: string; log: string }>(page, "changed");
      assert.match(refused, /^ArtifactError: changes of base: has \d+ bytes, expected \d+: another program changed/);
      assert.ok(log.includes("secret other") && !log.includes("secret mine"));
      await reloaded(page);
      assert.deepEqual(await call(page, "reopened"), { size, found: "other" });
    });
    await t.test("changes that another tab deleted are opened anew", async () => {
      const { refused, ...rest } = await call<{ refused: string }>(page, "changesDeleted");
      assert.match(refused, /^ArtifactError: deleted: has 0 bytes, expected \d+: another program changed it/);
      assert.deepEqual(rest, { left: 0, found: "other" });
    });
    await t.test("without WebAssembly the error says so, and the index works", async () => {
      const [problem, works] = await call<[string, boolean]>(page, "withoutWebAssembly");
      assert.match(problem, /^MissingExtraError: .*: WebAssembly is not there or is switched off/);
      assert.ok(works);
      await reloaded(page);
    });
    await t.test("without IndexedDB the error says what is missing", async () => {
      for (const problem of await call<string[]>(page, "without")) {
        assert.match(problem, /^MissingExtraError: none: this browser, or this window, has no IndexedDB/);
      }
    });
  });
});

test("without space nothing is changed, and erasing works", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async () => {
  await inPage("storage.html", async (page) => {
    await quota(page, 400_000);
    const store = await call<{ problem: string; forgotten: unknown; after: unknown }>(page, "full");
    assert.match(store.problem, /^ArtifactError: full: there is no space left for it; nothing was changed/);
    assert.ok(store.forgotten); // and with it, where nothing else could be done, the others
    assert.deepEqual(store.after, [0, false]);
  });
  await inPage("storage.html", async (page) => {
    await quota(page, 400_000);
    const changes = await call<{ problem: string; grew: boolean; same: boolean }>(page, "changesFull");
    assert.match(changes.problem, /^ArtifactError: large: there is no space left/);
    assert.ok(changes.same && changes.grew);
  });
});

test("who erases without space loses nothing else, and nobody brings it back", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async () => {
  interface Found { problem: string; told: unknown; rounds: number[] | null; secure: unknown; consent: boolean; queries: string[] }
  const stays: [order: string[], Omit<Found, "problem" | "secure" | "told">][] = [
    [["drop"], { rounds: [7], consent: true, queries: ["a secret", "another"] }],
    [["forget"], { rounds: null, consent: true, queries: ["another"] }],
    ...[["forget", "withdraw"], ["withdraw", "forget"], ["drop", "withdraw"], ["withdraw", "drop"]].map(
      (order): (typeof stays)[number] => [order, { rounds: null, consent: false, queries: [] }],
    ),
  ];
  await inPage("storage.html", async (page) => {
    for (const [order, expected] of stays) {
      const { problem, secure, told: _, ...found } = await call<Found>(page, "erasedWithoutSpace", order);
      assert.match(problem, /there is no space left for it; nothing was changed/);
      assert.deepEqual([secure, found], [null, expected], String(order));
    }
    // A round's own tidying asks for no such thing: nothing is lost, and it is done another time.
    const { problem, told, ...found } = await call<Found>(page, "erasedWithoutSpace", ["discard"]);
    assert.deepEqual(told, [problem]);
    assert.deepEqual(found, { rounds: [7], secure: [1], consent: true, queries: ["a secret", "another"] });
  });
});
