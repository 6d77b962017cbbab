/** What the scripts that drive examples/web share: its servers, a browser, and waits that end and say why. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

export const LIMIT = 240_000; // ms; only a hang reaches it
const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
const servers = new Set();

/** Do `work` with a browser; afterwards neither it nor a server that was started is left. */
export async function inBrowser(playwright, executablePath, work) {
  const { chromium } = (await import(pathToFileURL(playwright).href)).default;
  const browser = await chromium.launch({ executablePath, headless: true, args: ARGUMENTS });
  try {
    console.log(JSON.stringify(await work(browser)));
  } finally {
    await browser.close();
    for (const server of servers) server.kill();
  }
}

/** A server of the page: `serve.py` of this path with these options. */
export async function started(python, script, options, port = 0) {
  const command = [script, ...options, "--port", String(port)];
  const server = spawn(python, command, { stdio: ["ignore", "pipe", "inherit"] });
  servers.add(server);
  for await (const line of createInterface({ input: server.stdout })) {
    return { server, address: line.split(" ")[0] };
  }
  throw new Error("the server did not start");
}

export async function stopped(server) {
  servers.delete(server);
  const ended = once(server, "exit");
  server.kill();
  await ended;
}

/** Wait for it; an error tells what the page showed instead. */
export async function reached(page, selector, options = {}) {
  try {
    await page.locator(selector, options).first().waitFor({ timeout: LIMIT, state: "attached" });
  } catch (error) {
    const [ready, shown] = await page.evaluate("[document.documentElement.dataset.ready, document.body.innerText]");
    throw new Error(`${error.message}\nready: ${ready}\n${shown}`);
  }
}

/** The page works, and is kept for offline where `kept` asks for it. */
export const ready = (page, kept = false) => reached(page, `html[data-ready${kept ? "=true" : ""}]`);

/** Type the query and wait for its results. */
export async function searched(page, query) {
  await page.evaluate("document.getElementById('status').textContent = ''");
  await page.fill("#query", query);
  await reached(page, "#status", { hasText: / ms/ });
}

/** Let the newer version in that the page offers; the page that comes then is the newer worker's. */
export async function updated(page) {
  await reached(page, "#update:not([hidden])");
  const reloaded = page.waitForEvent("load", { timeout: LIMIT });
  await page.click("#update button");
  await reloaded;
  await page.waitForFunction(isSettled, null, { timeout: LIMIT });
  await ready(page, true);
}

/** No worker is under way that would load the page again. */
async function isSettled() {
  const { active, waiting, installing } = await navigator.serviceWorker.getRegistration();
  return !waiting && !installing && active.state === "activated" && navigator.serviceWorker.controller === active;
}
