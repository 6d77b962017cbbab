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
    await t.test("an index's changes outlast a reload, and another tab's are taken up", async () => {
      const { size, found, log } = await call<{ size: number; found: string[]; log: string }>(page, "changed");
      assert.deepEqual(found, ["other", "third"]);
      assert.ok(log.includes("secret other") && !log.includes("secret mine"));
      await reloaded(page);
      assert.deepEqual(await call(page, "reopened"), { size, found: "other" });
    });
    await t.test("changes that another tab deleted are opened anew", async () => {
      assert.deepEqual(await call(page, "changesDeleted"), [[null, "other"], [null, "other"]]);
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
    assert.match(store.problem, /^StorageFullError: full: there is no space left for it; nothing was changed/);
    assert.ok(store.forgotten); // and with it, where nothing else could be done, the others
    assert.deepEqual(store.after, [0, false]);
  });
  await inPage("storage.html", async (page) => {
    await quota(page, 400_000);
    const changes = await call<{ problem: string; grew: boolean; same: boolean }>(page, "changesFull");
    assert.match(changes.problem, /^StorageFullError: large: there is no space left .*\d+ of the \d+ bytes that the browser/);
    assert.ok(changes.same && changes.grew);
  });
});

test("a full storage is emptied by deleting, and filled again", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async () => {
  interface Found { problem: string; count: number; full: number[]; deleted: number[]; left: unknown[]; again: unknown[]; after: unknown[] }
  for (const [characters, quotaSize] of [[21_000, 500_000], [700, 300_000], [130_000, 900_000]] as const) {
    await inPage("storage.html", async (page) => {
      await quota(page, quotaSize);
      const { problem, count, full, ...found } = await call<Found>(page, "emptied", "notes", characters);
      assert.match(problem, /^StorageFullError: notes: there is no space left/);
      assert.ok(count > 3 && full[0] === full[1], `${count} notes`);
      const { again, after, ...others } = found;
      assert.deepEqual(others, { deleted: [1, count - 2], left: ["note 1", "note 1", null] });
      // The room of many small rows comes back when the browser tidies its files, which may be later.
      if (characters > 4096) assert.deepEqual(again, [null, null]);
      const size = full[0]! - count + 1 + again.filter((problem) => problem === null).length;
      assert.deepEqual(after, [size, size, ...(again[0] === null ? ["again"] : [])]);
    });
  }
});

test("two tabs share an index, in pages and in workers", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async () => {
  await inPage("storage.html", async (first) => {
    const second = await first.context().newPage();
    await second.goto(first.url());
    await second.waitForFunction("window.page !== undefined");
    for (const [one, other] of [[false, false], [true, false], [true, true]] as const) {
      const name = `shared ${one} ${other}`;
      const size = await call<number>(first, "openTab", name, one);
      await call(second, "openTab", name, other);
      assert.equal(await call(first, "addInTab", "a", "b"), null);
      assert.deepEqual(await call(second, "searchTab"), { ids: ["a", "b"], size: size + 2 });
      assert.match(await call<string>(second, "addInTab", "a"), /^InvalidInputError: the id 'a' is in the index already/);
      const rounds = Array.from({ length: 10 }, (_, i) => i);
      const added = await Promise.all(rounds.flatMap((i) => [call(first, "addInTab", `f${i}`), call(second, "addInTab", `s${i}`)]));
      assert.deepEqual(added, Array(20).fill(null));
      assert.equal(await call(second, "deleteInTab", "a", "f1", "s1"), 3);
      const ids = ["b", ...rounds.filter((i) => i !== 1).flatMap((i) => [`f${i}`, `s${i}`])].sort();
      for (const page of [first, second]) assert.deepEqual(await call(page, "searchTab"), { ids, size: size + ids.length });
    }
    await call(second, "holdTab", "shared true true");
    assert.match(await call<string>(first, "addInTab", "late"), /^ChangedElsewhereError: shared true true: another tab has been writing for/);
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
