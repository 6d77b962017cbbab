/** A real browser with a page of the tests, served with what it reads. */

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { CONFORMANCE, FIXTURES, PACKAGE, REFERENCE } from "./fixtures.js";

/** What `python -m tests.java.searches` wrote. */
export const SEARCHES = join(PACKAGE, "..", "..", "build", "searches");
export const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const ROOTS: Record<string, string> = {
  dist: join(PACKAGE, "dist"),
  default: join(PACKAGE, "default"),
  test: join(PACKAGE, "test"),
  reference: REFERENCE,
  bundle: REFERENCE,
  fixtures: FIXTURES,
  training: join(CONFORMANCE, "training"),
  index: join(CONFORMANCE, "index"),
  searches: SEARCHES,
  "onnxruntime-web": join(PACKAGE, "node_modules", "onnxruntime-web", "dist"),
};
const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
};
const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** Answers a request, where it is one of a test's own. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => boolean;

/** Call `work` with the test's page `name`, open in a browser with a profile of its own. */
export async function inPage(name: string, work: (page: Page) => Promise<void>, answer?: Answer): Promise<void> {
  const server = createServer((request, response) => {
    if (answer?.(request, response)) return;
    if (request.url === "/favicon.ico") {
      response.writeHead(204).end(); // some Chromiums ask for it, and a test may count what they do not find
      return;
    }
    if (request.url === "/readme.html") {
      response.writeHead(200, { "content-type": "text/html" }).end(readmePage());
      return;
    }
    const [, root = "", ...rest] = normalize(decodeURI((request.url ?? "").split("?", 1)[0] ?? "")).split("/");
    const file = join(ROOTS[root] ?? "/nowhere", ...rest);
    const type = TYPES[extname(file)] ?? "application/octet-stream";
    if (!existsSync(file)) response.writeHead(404).end();
    else response.writeHead(200, { "content-type": type }).end(readFileSync(file));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const profile = mkdtempSync(join(tmpdir(), "pocketquery-chromium-"));
  let context: BrowserContext | null = null;
  try {
    const options = { executablePath: CHROMIUM, headless: true, args: ARGUMENTS };
    context = await chromium.launchPersistentContext(profile, options);
    const page = await context.newPage();
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(error.message));
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/test/${name}`);
    await page.waitForFunction("window.page !== undefined");
    await work(page);
    assert.deepEqual(errors, []);
  } finally {
    await context?.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    rmSync(profile, { recursive: true, force: true });
  }
}

/** The README's page. */
function readmePage(): string {
  const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
  return /```html page\n([\s\S]*?)```/.exec(readme)?.[1] ?? assert.fail("no snippet");
}

/** Call a method of the page. */
export const call = <T>(page: Page, method: string, ...args: unknown[]): Promise<T> =>
  page.evaluate(`window.page.${method}(...${JSON.stringify(args)})`) as Promise<T>;
