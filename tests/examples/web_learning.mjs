/**
 * Drives learning on the page of examples/web in a real browser; test_web.py starts it.
 *
 *     node web_learning.mjs '{"python": ..., "serve": ..., "playwright": ..., "chromium": ...,
 *                             "site": [bundle with a training step, index], "queries": [...], "pictures": ...}'
 */

import { join } from "node:path";
import { inBrowser, LIMIT, ready, searched, started, stopped } from "./web_browser.mjs";

const { python, serve, playwright, chromium, site, queries, pictures } = JSON.parse(process.argv[2]);
const [bundle, index] = site;
const text = (page, id) => page.textContent(`#${id}`);
const said = (page, pattern) => page.locator("#taught", { hasText: pattern }).waitFor({ timeout: LIMIT });
const tree = (page) => page.locator("#learning").ariaSnapshot();

async function results(page, query) {
  await page.check("input[value=dense]");
  await searched(page, query);
  return page.locator("#results .title").allTextContents();
}

/** Search and open the result at this place, from the keyboard alone. */
async function opened(page, query, place) {
  await results(page, query);
  await page.focus("#query");
  for (let i = 0; i <= place; i++) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
}

await inBrowser(playwright, chromium, async (browser) => {
  const found = { errors: [] };
  const context = await browser.newContext({ viewport: { width: 1180, height: 820 }, colorScheme: "light" });
  const page = await context.newPage();
  page.on("pageerror", (error) => found.errors.push(error.message));
  const asked = [];
  context.on("request", (request) => asked.push(new URL(request.url()).pathname));
  const { server, address } = await started(python, serve, ["--bundle", bundle, "--index", index]);
  await page.goto(address);
  await ready(page);
  const stored = "caches.open('pocketquery-files').then(async (c) => (await c.keys()).map((r) => r.url.split('/').pop()))";
  const later = await page.evaluate("Object.entries(SITE.files).filter(([, { later }]) => later).map(([name, { sha256 }]) => [name, sha256])");
  const [step, runtime] = ["bundle/train_step.onnx", "onnxruntime/ort-wasm-simd-threaded.wasm"].map((name) => new Map(later).get(name));

  // Before consent nothing is kept, and nothing that trains is loaded.
  await opened(page, queries[0], 3);
  found.before = {
    ask: await page.isVisible("#ask"),
    databases: await page.evaluate(
      "indexedDB.databases().then((all) => Promise.all(all.map(({ name }) => new Promise((resolve) => { const r = indexedDB.open(name); r.onsuccess = () => { const q = r.result.transaction('queries').objectStore('queries').count(); q.onsuccess = () => { r.result.close(); resolve(q.result); }; }; }))))",
    ),
    loaded: asked.some((path) => later.some(([name]) => path.endsWith(name))) || (await page.evaluate(stored)).some((one) => later.some(([, sha256]) => sha256 === one)),
    tree: await tree(page),
  };
  await page.screenshot({ path: join(pictures, "learning-ask.png"), fullPage: true });

  await page.focus("#consent");
  await page.keyboard.press("Enter");
  await said(page, "what you open is kept");
  found.consented = {
    focus: await page.evaluate("document.activeElement.id"),
    stored: [step, runtime].every((one) => one !== undefined) && (await page.evaluate(stored)).filter((one) => one === step || one === runtime).length === 2,
    disabled: await page.isDisabled("#improve"),
    needed: await text(page, "needed"),
  };

  // From here on without a network.
  await stopped(server);
  await context.setOffline(true);
  for (const [i, query] of queries.entries()) await opened(page, query, 1 + (i % 4));
  await page.locator("#kept-count", { hasText: `${queries.length} opened` }).waitFor({ timeout: LIMIT });
  const first = await results(page, queries[0]);
  await page.focus("#improve");
  await page.keyboard.press("Enter");
  await said(page, /Improved|Nothing was changed|did not work/);
  found.improved = { said: await text(page, "taught"), figures: await text(page, "improvement"), focus: await page.evaluate("document.activeElement.id") };
  const after = await results(page, queries[0]);
  await page.screenshot({ path: join(pictures, "learning-improved.png"), fullPage: true });
  found.tree = await tree(page);

  await page.reload();
  await ready(page);
  found.reloaded = { figures: await text(page, "improvement"), same: String(await results(page, queries[0])) === String(after), differs: String(after) !== String(first) };

  await page.click("#undo");
  await said(page, "undone");
  found.undone = { figures: await text(page, "improvement"), asBefore: String(await results(page, queries[0])) === String(first), kept: await text(page, "kept-count") };

  // Again, with a result opened meanwhile, and then one search is forgotten: the improvement goes with it.
  await page.evaluate(() => {
    const [bar, improve] = ["training", "improve"].map((id) => document.getElementById(id));
    window.enabled = []; // whether the training was over, each time that the button came back
    new MutationObserver(() => improve.disabled || window.enabled.push(bar.hidden)).observe(improve, {
      attributeFilter: ["disabled"],
    });
    new MutationObserver((_, observer) => {
      observer.disconnect();
      document.querySelector("#results .title").click();
    }).observe(bar, { attributeFilter: ["value"] });
  });
  await page.click("#improve");
  await said(page, /Improved|Nothing was changed|did not work/);
  found.enabled = await page.evaluate("window.enabled");
  found.again = await text(page, "improvement");
  await page.click("#learning summary");
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.screenshot({ path: join(pictures, "learning-phone.png"), fullPage: true });
  found.wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth");
  const saving = page.waitForEvent("download");
  await page.click("#save");
  const download = await saving;
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  found.saved = JSON.parse(Buffer.concat(chunks).toString("utf8")).map(({ query }) => query);
  await page.click(`button[aria-label="Forget “${queries[2]}”"]`);
  await said(page, "Forgotten");
  found.forgotten = { figures: await text(page, "improvement"), kept: await text(page, "kept-list"), asBefore: String(await results(page, queries[0])) === String(first) };

  await page.click("#withdraw");
  await said(page, "Nothing is kept any more");
  await opened(page, queries[0], 2);
  found.withdrawn = { ask: await page.isVisible("#ask") };
  await page.reload();
  await ready(page);
  found.withdrawn.after = await page.isVisible("#ask");
  await context.close();
  return found;
});
