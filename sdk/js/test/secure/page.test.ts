/** Private rounds in a real browser: Python's bytes, from WebCrypto and IndexedDB there. */

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { call, CHROMIUM, inPage } from "../browser.js";
import { FOUND, offerOf } from "./data.js";

const ROUND = (FOUND["rounds"] ?? [])[2] ?? assert.fail("no round");

test("a page in private rounds", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async (t) => {
  await inPage("secure.html", async (page) => {
    const loaded = async (): Promise<void> => {
      await page.reload();
      await page.waitForFunction("window.page !== undefined");
    };
    await t.test("gives Python's bytes in every stage, loaded anew before each", async () => {
      const { config, ...offer } = offerOf(ROUND).offer;
      const plain = { ...offer, config: { clientInit: config.clientInit } };
      const ready = await call<string>(page, "answered", ROUND, 0, 1, ROUND.announcement, plain);
      assert.equal(ready, ROUND.devices[0].ready);
      for (const { stage, down, up } of ROUND.stages) {
        await loaded();
        assert.equal(await call<string>(page, "answered", ROUND, 0, stage, down[0], null), up[0], `stage ${stage}`);
      }
      await loaded();
      assert.deepEqual(await call(page, "left", ROUND, 0), [ROUND.round, null, null, ROUND.round]);
    });
    await t.test("has one key, which no script reads, and which outlasts a reload", async () => {
      interface Found { keys: string[]; readable: string; secrets: string[] }
      const { keys, readable, secrets } = await call<Found>(page, "deviceKey");
      assert.equal(keys[0], keys[1]);
      assert.equal(readable, "InvalidAccessError");
      assert.equal(secrets[0], secrets[1]);
      await loaded();
      assert.deepEqual((await call<Found>(page, "deviceKey")).keys, keys);
    });
    await t.test("says what is missing where there is no X25519", async () => {
      assert.match(await call<string>(page, "without"), /^MissingExtraError: private rounds need X25519 and this platform/);
    });
  });
});
