/**
 * Drives the page of examples/web in a real browser; test_web.py starts it and reads its JSON.
 *
 *     node web_page.mjs '{"python": ..., "serve": ..., "playwright": ..., "chromium": ..., "sites": ...}'
 *
 * Each site is [bundle, index, key or nothing]: "good", "newer" (served later in the place of good), "tampered",
 * "elsewhere" (an index of another space), "unsigned" (with a key that has signed nothing), "filed" (notes in two
 * languages).
 */

import { join } from "node:path";
import { inBrowser, reached, ready, searched, started, stopped, updated } from "./web_browser.mjs";

const { python, serve, playwright, chromium, sites, queries, pictures } = JSON.parse(process.argv[2]);
const DESKTOP = { viewport: { width: 1180, height: 820 }, colorScheme: "light" };
const PHONE = {
  viewport: { width: 390, height: 844 }, colorScheme: "dark", isMobile: true, hasTouch: true,
};
const KEYS = ["ArrowDown", "Enter", "ArrowUp", "ArrowDown", "End", "Escape", "Tab", "/"];

const served = ([bundle, index, key], port) =>
  started(python, serve, ["--bundle", bundle, "--index", index, ...(key ? ["--public-key", key] : [])], port);
const texts = (page, selector) => page.locator(selector).allTextContents();
const focused = (page) => page.evaluate("document.activeElement.id || document.activeElement.getAttribute('aria-controls') || 'else'");

async function facts(page) {
  const [names, values] = [await texts(page, "dt"), await texts(page, "dd")];
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

/** Types the query and waits for its results. */
async function asked(page, query) {
  await searched(page, query);
  return {
    titles: await texts(page, "#results .title"),
    marks: await texts(page, "#results mark"),
    status: await page.textContent("#status"),
    ms: await page.evaluate("({ ...document.getElementById('status').dataset })"),
  };
}

async function walked(page) {
  await page.focus("#query");
  const steps = [];
  for (const key of KEYS) {
    await page.keyboard.press(key);
    steps.push(await focused(page));
  }
  const open = page.locator(".title[aria-expanded=true]");
  const opened = await open.count();
  await page.focus(".title[aria-expanded=true]");
  const focus = await focused(page);
  // The page asks the same again when a release has come.
  await page.evaluate("document.getElementById('status').textContent = ''");
  await page.evaluate("document.getElementById('search').dispatchEvent(new Event('input'))");
  await reached(page, "#status", { hasText: / ms/ });
  return { steps, open: opened, again: [await open.count(), (await focused(page)) === focus] };
}

async function visited(browser, site, options = {}, { script, quotaSize } = {}) {
  const { server, address } = await served(site);
  const context = await browser.newContext({ ...DESKTOP, ...options });
  if (script) await context.addInitScript(script);
  const page = await context.newPage();
  if (quotaSize) {
    const devtools = await context.newCDPSession(page);
    await devtools.send("Storage.overrideQuotaForOrigin", { origin: new URL(address).origin, quotaSize });
  }
  await page.goto(address);
  await reached(page, "html[data-ready], #problem:not([hidden])");
  const found = { problem: (await page.textContent("#problem")).replace(/\s+/g, " ") };
  if (await page.isVisible("#problem")) {
    await page.screenshot({ path: join(pictures, "problem.png") });
  } else {
    for (const query of queries) await asked(page, query); // as fast as it is in use
    Object.assign(found, { problem: "", facts: await facts(page), ...(await asked(page, queries[0])) });
    await page.screenshot({ path: join(pictures, `${options.isMobile ? "phone" : "desktop"}.png`) });
  }
  await context.close();
  await stopped(server);
  return found;
}

async function offlineAndUpdated(browser) {
  const found = { errors: [] };
  const first = await served(sites.good);
  const port = Number(new URL(first.address).port);
  const context = await browser.newContext(DESKTOP);
  const page = await context.newPage();
  page.on("pageerror", (error) => found.errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && found.errors.push(message.text()));
  let bytes = 0;
  context.on("response", (response) => {
    bytes += Number((response.fromServiceWorker() ? null : response.headers()["content-length"]) ?? 0);
  });
  await page.goto(first.address);
  await ready(page);
  found.bytes = bytes;
  found.total = await page.evaluate("Object.values(SITE.files).reduce((sum, f) => sum + (f.later ? 0 : f.bytes), 0)");
  found.announced = await page.getAttribute("#announced", "aria-live");
  found.online = [];
  for (const query of queries) found.online.push(await asked(page, query));
  await page.evaluate("document.getElementById('status').textContent = ''");
  await page.fill("#query", '"'); // a phrase begins
  await reached(page, "#status", { hasText: "Ready." });
  await page.fill("#query", `${"a ".repeat(4999)}a😀`); // 10,000 UTF-16 units end in half a character
  await reached(page, "#status", { hasText: / ms|cannot/ });
  found.long = await page.textContent("#status");
  await asked(page, queries.at(-1));
  found.walked = await walked(page);
  found.headings = await page.evaluate(
    "[...document.querySelectorAll('h1, h2, h3')].filter((one) => one.checkVisibility()).map((one) => Number(one.tagName[1]))",
  );
  found.facts = await facts(page);
  await page.click("#replay");
  await reached(page, "#replayed", { hasText: /cosine|does not/ });
  found.replayed = await page.textContent("#replayed");

  await stopped(first.server);
  await context.setOffline(true);
  await page.reload();
  await ready(page);
  found.offline = [];
  for (const query of queries) found.offline.push(await asked(page, query));
  found.offlineFacts = await facts(page);

  const second = await served(sites.newer, port);
  await context.setOffline(false);
  await page.reload();
  await ready(page);
  found.beforeUpdate = (await facts(page)).Passages;
  await updated(page);
  found.afterUpdate = (await facts(page)).Passages;
  found.stored = await page.evaluate(
    "caches.open('pocketquery-files').then(async (c) => (await c.keys()).map((r) => r.url.split('/').pop()))",
  );
  found.named = await page.evaluate("[...new Set(Object.values(SITE.files).filter((f) => !f.later).map((f) => f.sha256))]");
  await context.close();
  await stopped(second.server);
  return found;
}

/** What an index of a folder shows: files, languages, code, what hardly fits, and what is not read. */
async function filed(browser) {
  const { server, address } = await served(sites.filed);
  const context = await browser.newContext(DESKTOP);
  const page = await context.newPage();
  const found = { errors: [] };
  page.on("pageerror", (error) => found.errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && found.errors.push(message.text()));
  await page.goto(address);
  await ready(page);
  found.facts = await facts(page);
  found.languages = await texts(page, "#language option");
  const query = "restic backup of the notes";
  await asked(page, query);
  found.both = await page.locator(".document").evaluateAll((all) =>
    all.map((one) => ({
      place: one.querySelector(".place").textContent,
      titles: [...one.querySelectorAll(".title")].map((title) => title.textContent),
      more: one.querySelector(".more")?.textContent,
    })),
  );
  await page.screenshot({ path: join(pictures, "filed.png") });
  await page.click(".more");
  await reached(page, ".document:first-child .passage:nth-of-type(7)");
  found.others = await page.locator(".document:first-child .passage").count();
  await page.getByRole("button", { name: "Restore" }).click();
  await reached(page, "#results pre");
  found.code = await page.textContent("#results pre");
  await searched(page, "restic jede Nacht");
  await page.evaluate("document.getElementById('status').textContent = ''");
  await page.selectOption("#language", "de");
  await reached(page, "#status", { hasText: / ms/ });
  found.german = await texts(page, ".place");
  await page.selectOption("#language", "");
  await page.click("#clear");
  await reached(page, "#status", { hasText: /Ready/ });
  found.cleared = await page.evaluate(() => ({
    value: document.getElementById("query").value,
    results: document.querySelectorAll(".document").length,
    focus: document.activeElement.id,
    offered: !document.getElementById("clear").hidden,
  }));
  await searched(page, "zzgh qqwrt");
  found.weak = { before: [(await page.textContent("#status")).slice(0, 10), await page.textContent("#nothing p")] };
  await page.click("#weaker");
  await reached(page, ".document");
  found.weak.after = await page.locator(".document").count();
  await searched(page, "как связать заметки");
  found.unread = { status: await page.textContent("#status"), nothing: await page.textContent("#nothing p") };
  await searched(page, "beans and peas");
  found.named = await page.locator("#results .text").first().textContent();
  await searched(page, '"notes of the restic" backup');
  found.absent = await page.textContent("#status");
  await searched(page, "+zzghqq");
  found.none = [await page.textContent("#nothing p"), await page.isVisible("#weaker")];
  await context.close();
  await stopped(server);
  return found;
}

await inBrowser(playwright, chromium, async (browser) => ({
  main: await offlineAndUpdated(browser),
  filed: await filed(browser),
  tampered: await visited(browser, sites.tampered),
  elsewhere: await visited(browser, sites.elsewhere),
  noWebAssembly: await visited(browser, sites.good, {}, { script: "delete globalThis.WebAssembly" }),
  noServiceWorker: await visited(browser, sites.good, { serviceWorkers: "block" }),
  noSpace: await visited(browser, sites.good, {}, { quotaSize: 2_000_000 }),
  unsigned: await visited(browser, sites.unsigned),
  phone: await visited(browser, sites.good, PHONE),
  desktop: await visited(browser, sites.good),
}));
