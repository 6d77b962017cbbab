/**
 * The users of two search pages, for run_browsers.py: each in a browser profile of its own.
 *
 *     node browsers.mjs settings.json
 *
 * It prints {"joined": ...} when both take part and {"accepted": ...} when both updates count, writes
 * browsers.json when both search with what the round released, and then waits to be ended.
 */

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const settings = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { chromium } = (await import(pathToFileURL(settings.playwright).href)).default;
const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
const timeout = 1000 * settings.seconds;
const browser = await chromium.launch({ executablePath: settings.chromium, headless: true, args: ARGUMENTS });
process.on("SIGTERM", () => browser.close().finally(() => process.exit(0)));

const picture = (page, name) => page.screenshot({ path: join(settings.output, `${name}.png`), fullPage: true });
const said = (page, id, pattern) => page.locator(`#${id}`, { hasText: pattern }).waitFor({ timeout });

async function results(page, query, how) {
  await page.evaluate("document.getElementById('status').textContent = ''");
  await how(page, query);
  await said(page, "status", / ms/);
  return page.locator("#results > li").allInnerTexts();
}

/** What a mistyped search finds by meaning alone: titles with scores, and pieces of the texts. */
async function found(page, query) {
  await page.check("input[value=dense]");
  return results(page, query.replace(/(....)./gu, "$1"), filled);
}

const filled = (page, query) => page.fill("#query", query);

async function typed(page, query) {
  await page.fill("#query", "");
  await page.locator("#query").pressSequentially(query, { delay: 20 });
}

/** Search, and open a result from the keyboard. */
async function opened(page, query, place, how) {
  const { length } = await results(page, query, how);
  await page.focus("#query");
  for (let i = 0; i <= Math.min(place, length - 1); i++) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
}

/** A user agrees, searches, opens results, agrees to take part. */
async function joined(number, searches) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 900 }, colorScheme: "light" });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(settings.page);
  await page.waitForSelector("html[data-ready]", { timeout });
  await page.click("#consent");
  await said(page, "taught", "what you open is kept");
  for (const [i, query] of searches.entries()) await opened(page, query, i % 3, i === 0 ? typed : filled);
  await said(page, "kept-count", `${searches.length} opened`);
  await picture(page, `page-${number}-asked`);
  await page.click("#join");
  await page.waitForSelector("#rounds-joined:not([hidden])", { timeout });
  const before = await page.textContent("#rounds-version");
  const version = await page.getAttribute("#rounds-version", "data-version");
  return { number, page, errors, before, version, first: await found(page, searches[0]) };
}

/** The page after the round, and after it was opened again. */
async function released({ number, page, errors, before, version, first }, query) {
  await page.waitForSelector(`#rounds-version:not([data-version="${version}"])`, { timeout });
  const after = await page.textContent("#rounds-version");
  const moved = Number(await page.getAttribute("#rounds-version", "data-moved"));
  const last = await page.textContent("#rounds-last");
  const again = await found(page, query);
  await picture(page, `page-${number}-released`);
  await page.reload();
  await page.waitForSelector("html[data-ready]", { timeout });
  const reloaded = await page.textContent("#rounds-version");
  return { last, before, after, moved, reloaded, results: [first, again], errors };
}

const pages = [];
for (const [number, searches] of settings.searches.entries()) pages.push(await joined(number, searches));
console.log(JSON.stringify({ joined: pages.length }));
for (const { page } of pages) await page.waitForSelector('#rounds-last[data-what="accepted"]', { timeout });
console.log(JSON.stringify({ accepted: pages.length }));
const reports = [];
for (const [i, page] of pages.entries()) reports.push(await released(page, settings.searches[i][0]));
const file = join(settings.output, "browsers.json");
writeFileSync(`${file}.tmp`, JSON.stringify({ chromium: browser.version(), pages: reports }, null, 1));
renameSync(`${file}.tmp`, file);
setInterval(() => undefined, 1000); // until it is ended
