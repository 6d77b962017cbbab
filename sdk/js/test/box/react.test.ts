/** A search box in React: the last question counts, and loading, error and nothing found can be told apart. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { build } from "esbuild";
import type { Page } from "playwright-core";
import { call, CHROMIUM, inPage } from "../browser.js";
import { PACKAGE } from "../fixtures.js";

async function app(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(PACKAGE, "test", "box", "app.jsx")],
    bundle: true,
    format: "esm",
    jsx: "automatic",
    write: false,
    logLevel: "error",
    define: { "process.env.NODE_ENV": '"development"' }, // in which React warns of what it does not like
  });
  return outputFiles[0]!.text;
}

async function says(page: Page, status: string): Promise<string[]> {
  await page.locator("#status", { hasText: new RegExp(`^${status}$`) }).waitFor();
  return page.locator("li").evaluateAll((items) => items.map((item) => item.innerHTML));
}

test("a search box", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async () => {
  const code = await app();
  await inPage("box/react.html", async (page) => {
    const problems: string[] = [];
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    const input = page.locator("input");
    const asked = (): Promise<string[]> => page.evaluate("window.page.asked.splice(0)");
    assert.deepEqual(await says(page, "0 found"), []); // nothing was asked: neither loading nor empty
    await input.fill("tra");
    await says(page, "loading"); // the index is not open
    await call(page, "open");
    assert.deepEqual(await says(page, "2 found"), ["The <mark>tram</mark> stops here.", "The <mark>train</mark> to Oslo leaves at eight."]);
    assert.deepEqual(await asked(), ["tra"]);

    // While one is searched for, of those that are typed the last alone is asked; what came first is never shown.
    await page.evaluate("window.page.shown.length = 0");
    await call(page, "hold", true);
    for (const typed of ["osl", "oslo t", "oslo tr", "eight"]) await input.fill(typed);
    await says(page, "loading");
    await call(page, "release"); // of "osl"
    await page.waitForFunction("window.page.asked.length === 2");
    await page.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))");
    await call(page, "hold", false);
    await call(page, "release");
    assert.deepEqual(await says(page, "1 found"), ["The train to Oslo leaves at <mark>eight</mark>."]);
    assert.deepEqual(await asked(), ["osl", "eight"]);
    const shown: string[] = await page.evaluate("window.page.shown");
    const different = shown.filter((one, i) => one !== shown[i - 1]);
    const loading = ["osl", "oslo t", "oslo tr", "eight"].map((typed) => `${typed}: tram,oslo loading`);
    assert.deepEqual(different, [...loading, "eight: oslo"]); // what was there stays until the answer comes

    await input.fill("zeppelin");
    await says(page, "nothing found");
    await input.fill("broken");
    assert.deepEqual(await says(page, "error: k is 0, expected a whole number from 1"), []);
    await input.fill('"');
    assert.deepEqual(await says(page, "0 found"), []);

    await input.fill("harbour");
    await says(page, "nothing found");
    await call(page, "add", "new", "A harbour."); // and nobody types
    assert.deepEqual(await says(page, "1 found"), ["A <mark>harbour</mark>."]);
    assert.deepEqual(problems, []);
  }, (request, response) => {
    if (request.url !== "/app.js") return false;
    response.writeHead(200, { "content-type": "text/javascript" }).end(code);
    return true;
  });
});
