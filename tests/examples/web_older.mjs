/**
 * The page of examples/web where a service worker of an older version is in charge, and then where the
 * headers alone change; test_web_older.py starts it and reads its JSON.
 *
 *     node web_older.mjs '{"python": ..., "older": ..., "serve": ..., "playwright": ..., "chromium": ..., "site": ...}'
 */

import { inBrowser, ready, searched, started, stopped, updated } from "./web_browser.mjs";

const { python, older, serve, playwright, chromium, site, query } = JSON.parse(process.argv[2]);
const GATEWAY = "http://localhost:9";
const SITE = ["--bundle", site[0], "--index", site[1]];

async function asked(page) {
  await searched(page, query);
  return page.locator("#results .title").allTextContents();
}

const state = async (page) => ({
  heading: await page.textContent("h1"),
  titles: await asked(page),
  caches: await page.evaluate("caches.keys()"),
  kept: await page.evaluate(
    "caches.open('pocketquery-files').then(async (c) => (await c.keys()).map((r) => r.url.split('/').pop()))",
  ),
  named: await page.evaluate("Object.values(SITE.files).map(({ sha256 }) => sha256)"),
});

/** Whom page and worker may ask, by their headers, and whether the browser lets the page ask GATEWAY. */
const policy = (page) =>
  page.evaluate(async (gateway) => {
    const asked = async (name) => /connect-src ([^;]*)/.exec((await fetch(name)).headers.get("content-security-policy"))[1];
    const blocked = new Promise((resolve) => {
      document.addEventListener("securitypolicyviolation", () => resolve("blocked"), { once: true });
    });
    const tried = fetch(gateway).then(
      () => "asked",
      () => new Promise((resolve) => setTimeout(() => resolve("not there"), 500)), // the event comes first
    );
    return { page: await asked(""), worker: await asked("worker.js"), gateway: await Promise.race([blocked, tried]) };
  }, GATEWAY);

await inBrowser(playwright, chromium, async (browser) => {
  const page = await (await browser.newContext()).newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  let { server, address } = await started(python, older, SITE);
  const port = new URL(address).port;
  await page.goto(address);
  await ready(page, true);
  const before = await state(page);
  await stopped(server);
  ({ server } = await started(python, serve, SITE, port));
  await page.reload(); // the older worker answers
  await ready(page, true);
  const under = await state(page);
  await updated(page);
  const after = await state(page);
  await stopped(server);
  await page.context().setOffline(true);
  await page.reload();
  await ready(page, true);
  const offline = await state(page);

  await page.context().setOffline(false);
  const policies = [];
  for (const options of [["--gateway", GATEWAY], []]) {
    ({ server } = await started(python, serve, [...SITE, ...options], port));
    await page.reload();
    await updated(page);
    policies.push(await policy(page));
    await stopped(server);
  }
  return { errors, before, under, after, offline, policies };
});
