/** One index in several tabs and a worker: who adds, who is told, who is closed, and who searches meanwhile. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { call, CHROMIUM, inPage } from "../browser.js";

const skip = !existsSync(CHROMIUM) && "no Chromium";

async function another(page: Page): Promise<Page> {
  const tab = await page.context().newPage();
  await tab.goto(page.url());
  await tab.waitForFunction("window.page !== undefined");
  return tab;
}

test("a tab is told what another one adds, in pages and in workers", { skip }, async () => {
  await inPage("box/tabs.html", async (first) => {
    const second = await another(first);
    for (const [one, other] of [[false, false], [true, true]] as const) {
      await call(first, "open", `told ${one}`, one);
      await call(second, "open", `told ${one}`, other);
      await call(first, "add", "a", "b");
      for (const tab of [first, second]) {
        await tab.waitForFunction("window.page.told.length > 0");
        assert.deepEqual(await tab.evaluate("window.page.told"), [2]);
      }
      await second.evaluate("window.page.end()");
      await call(first, "add", "c");
      assert.deepEqual(await call(second, "found"), ["a", "b", "c"]);
      assert.deepEqual(await second.evaluate("window.page.told"), [2]); // it was ended
    }
  });
});

test("a tab that is closed while it adds loses nothing that was stored, and leaves nothing half", { skip }, async () => {
  await inPage("box/tabs.html", async (first) => {
    await call(first, "open", "closed", false);
    for (let round = 0; round < 4; round++) {
      const writer = await another(first);
      const name = `round ${round}`;
      await call(writer, "open", "closed", round % 2 === 1);
      await call(writer, "addForever", name);
      await first.waitForFunction(`localStorage.getItem(${JSON.stringify(name)}) > ${3 * round}`);
      await writer.close();
      const stored = Number(await first.evaluate(`localStorage.getItem(${JSON.stringify(name)})`));
      const there = (await call<string[]>(first, "found")).filter((id) => id.startsWith(name));
      const tens = there.length / 10;
      assert.ok(tens === stored || tens === stored + 1, `${there.length} notes, of which ${stored} tens were stored`);
      await call(first, "add", `after ${round}`); // nobody has the lock
    }
    assert.equal((await call<string[]>(first, "found")).filter((id) => id.startsWith("after")).length, 4);
  });
});

test("searches are answered while notes are added, as if none were, before the next note is encoded", { skip }, async () => {
  await inPage("box/tabs.html", async (page) => {
    for (const [notes, inWorker] of [[60, false], [200, true]] as const) {
      interface Found { answers: [encoded: number, hits: number][]; size: number; length: number }
      const { answers, size, length } = await call<Found>(page, "searchWhileAdding", notes, inWorker);
      assert.deepEqual([size, length], [notes + 1, notes + 1]);
      const [during, last] = [answers.slice(0, -1), answers[answers.length - 1]]; // the last may be answered when all are there
      assert.deepEqual(during.filter(([, hits]) => hits !== 1), []);
      assert.ok([1, notes + 1].includes(last![1]));
      // A worker goes on while the page does not hear it; on one thread every note leaves room for a search.
      assert.ok(during.length >= (inWorker ? 1 : notes / 2), `${during.length} answers`);
      if (!inWorker) assert.deepEqual(during.filter(([encoded]) => encoded > 1), []);
    }
  });
});
