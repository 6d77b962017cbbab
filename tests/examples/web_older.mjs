/**
 * The page of examples/web where a service worker of an older version is in charge, then where the
 * headers alone change, and where a newer version comes while one is let in; test_web_older.py starts it and
 * reads its JSON.
 *
 *     node web_older.mjs '{"python": ..., "older": ..., "newer": ..., "serve": ..., "playwright": ..., "chromium": ..., "site": ...}'
 */

import { once } from "node:events";
import { createServer, request } from "node:http";
import { inBrowser, LIMIT, reached, ready, searched, started, stopped, updated } from "./web_browser.mjs";

const { python, older, newer, serve, playwright, chromium, site, query } = JSON.parse(process.argv[2]);
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

/** What stands before the servers: `port` is of the one that answers, null for no network; the last file that a worker stores waits while it is held. */
async function front() {
  const found = { port: null, hold: null, held: () => undefined };
  const server = createServer(async ({ url, method, headers }, response) => {
    if (url === "/worker.js" && headers["sec-fetch-dest"] === "empty" && found.hold) {
      found.held();
      await found.hold;
    }
    if (found.port === null) return response.destroy();
    request({ host: "127.0.0.1", port: found.port, path: url, method, headers }, (answer) => {
      answer.pipe(response.writeHead(answer.statusCode, answer.headers));
    }).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  /** The server of this port answers; the page's newer worker stores its files but for the last, until `release` is called. */
  const replaced = async (page, port) => {
    let release = null;
    const arrived = new Promise((resolve) => (found.held = resolve));
    found.hold = new Promise((resolve) => (release = resolve));
    found.port = port;
    await page.evaluate("navigator.serviceWorker.getRegistration().then((registration) => void registration.update())");
    await arrived;
    return () => {
      found.hold = null;
      release();
    };
  };
  return { server, found, replaced, address: `http://127.0.0.1:${server.address().port}` };
}

/** A third version comes while the second is let in, and the second again while a page loads that no worker controls. */
async function overtaken(browser) {
  const servers = await Promise.all([serve, older, newer].map((script) => started(python, script, SITE)));
  const [first, second, third] = servers.map(({ address }) => new URL(address).port);
  const { server, found, replaced, address } = await front();
  found.port = first;
  const page = await (await browser.newContext()).newPage();
  await page.goto(address);
  await ready(page, true);
  found.port = second;
  await page.evaluate("navigator.serviceWorker.getRegistration().then((registration) => void registration.update())");
  await reached(page, "#update:not([hidden])");
  let release = await replaced(page, third);
  const loaded = page.waitForEvent("load", { timeout: LIMIT });
  await page.click("#update button");
  await loaded;
  const isActive = "navigator.serviceWorker.getRegistration().then(({ active, installing }) => active.state === 'activated' && installing !== null)";
  await page.waitForFunction(isActive, null, { timeout: LIMIT });
  const during = await page.textContent("h1");
  release();
  await reached(page, "#update:not([hidden])");
  found.port = null;
  await page.context().setOffline(true);
  await updated(page);
  const listed = "Object.values(SITE.files).filter(({ later }) => !later).map(({ sha256 }) => sha256)";
  const { heading, titles, kept } = await state(page);
  const after = { during, heading, titles, kept, listed: await page.evaluate(listed) };

  found.port = third;
  await page.context().setOffline(false);
  const devtools = await page.context().newCDPSession(page);
  const again = page.waitForEvent("load", { timeout: LIMIT });
  await devtools.send("Page.reload", { ignoreCache: true });
  await again;
  release = await replaced(page, second);
  await ready(page);
  const uncontrolled = await page.evaluate("navigator.serviceWorker.controller === null");
  release();
  await reached(page, "#update:not([hidden])");
  await page.context().close();
  for (const { server } of servers) await stopped(server);
  server.closeAllConnections();
  server.close();
  return { ...after, uncontrolled };
}

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
  return { errors, before, under, after, offline, policies, overtaken: await overtaken(browser) };
});
