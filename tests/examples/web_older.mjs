/**
 * The page of examples/web where a service worker of an older version is in charge, and then where the
 * headers alone change; test_web_older.py starts it and reads its JSON.
 *
 *     node web_older.mjs '{"python": ..., "older": ..., "serve": ..., "playwright": ..., "chromium": ..., "site": ...}'
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { python, older, serve, playwright, chromium: executablePath, site, query } = JSON.parse(process.argv[2]);
const { chromium } = (await import(pathToFileURL(playwright).href)).default;
const GATEWAY = "http://localhost:9";
const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

async function started(script, port, ...more) {
  const options = [script, "--bundle", site[0], "--index", site[1], "--port", String(port), ...more];
  const server = spawn(python, options, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: server.stdout })) {
    return { server, address: line.split(" ")[0] };
  }
  throw new Error("the server did not start");
}

async function stopped(server) {
  const ended = once(server, "exit");
  server.kill();
  await ended;
}

const ready = (page) => page.waitForSelector("html[data-ready=true]", { timeout: 0 });

async function asked(page) {
  await page.evaluate("document.getElementById('status').textContent = ''");
  await page.fill("#query", query);
  await page.locator("#status", { hasText: / ms/ }).waitFor({ timeout: 0 });
  return page.locator("#results .title").allTextContents();
}

const state = async (page) => ({
  heading: await page.textContent("h1"),
  titles: await asked(page),
  caches: await page.evaluate("caches.keys()"),
});

/** Let the newer version in that the page offers. */
async function updated(page) {
  await page.waitForSelector("#update:not([hidden])", { timeout: 0 });
  const reloaded = page.waitForEvent("load", { timeout: 0 });
  await page.click("#update button");
  await reloaded;
  await ready(page);
}

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

const browser = await chromium.launch({ executablePath, headless: true, args: ARGUMENTS });
let server = null;
try {
  const page = await (await browser.newContext()).newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  const first = await started(older, 0);
  server = first.server;
  await page.goto(first.address);
  await ready(page);
  const before = await state(page);
  await stopped(server);
  ({ server } = await started(serve, Number(new URL(first.address).port)));
  await page.reload(); // the older worker answers
  await ready(page);
  const under = await state(page);
  await updated(page);
  const after = await state(page);
  await stopped(server);
  await page.context().setOffline(true);
  await page.reload();
  await ready(page);
  const offline = await state(page);

  await page.context().setOffline(false);
  const policies = [];
  for (const options of [["--gateway", GATEWAY], []]) {
    ({ server } = await started(serve, Number(new URL(first.address).port), ...options));
    await page.reload();
    await updated(page);
    policies.push(await policy(page));
    await stopped(server);
  }
  console.log(JSON.stringify({ errors, before, under, after, offline, policies }));
} finally {
  await browser.close();
  server?.kill();
}
