/**
 * Two pages of examples/web on one origin, each under a path of its own; test_web_neighbours.py starts
 * it and reads its JSON.
 *
 *     node web_neighbours.mjs '{"python": ..., "serve": ..., "playwright": ..., "chromium": ...,
 *                               "sites": {"a": [bundle, index], "b": [bundle, index]}, "query": ...}'
 */

import { once } from "node:events";
import { createServer, request } from "node:http";
import { inBrowser, LIMIT, ready, searched, started, stopped } from "./web_browser.mjs";

const { python, serve, playwright, chromium, sites, query } = JSON.parse(process.argv[2]);

/** What answers for both: /a/ is the page of one server, /b/ that of the other. */
async function opened(ports) {
  const both = createServer(({ url, method, headers }, response) => {
    const [, name, path] = /^\/([ab])(\/.*)$/.exec(url) ?? [];
    if (name === undefined) return response.writeHead(404).end("neither page\n");
    const [host, port] = ["127.0.0.1", ports[name]];
    request({ host, port, path, method, headers }, (answer) => {
      answer.pipe(response.writeHead(answer.statusCode, answer.headers));
    }).end();
  }).listen(0, "127.0.0.1");
  await once(both, "listening");
  return both;
}

async function visited(page, address) {
  await page.goto(address);
  return seen(page);
}

async function seen(page) {
  await ready(page, true);
  await searched(page, query);
  return {
    documents: await page.locator("dd").first().textContent(),
    titles: await page.locator("#results .title").allTextContents(),
    asks: await page.isVisible("#ask"),
  };
}

/** What lies in the cache in which earlier versions kept the files of every page. */
const shared = (page) =>
  page.evaluate(async () => {
    const kept = await (await caches.open("pocketquery-files")).keys();
    return kept.map(({ url }) => new URL(url).pathname);
  });

await inBrowser(playwright, chromium, async (browser) => {
  const found = { errors: [] };
  const [servers, ports] = [[], {}];
  for (const [name, [bundle, index]] of Object.entries(sites)) {
    const { server, address } = await started(python, serve, ["--bundle", bundle, "--index", index]);
    servers.push(server);
    ports[name] = new URL(address).port;
  }
  const both = await opened(ports);
  const address = `http://127.0.0.1:${both.address().port}`;
  const context = await browser.newContext();
  const page = await context.newPage();
  page.on("pageerror", (error) => found.errors.push(error.message));

  await page.goto(`${address}/`);
  await page.evaluate(async () => {
    const cache = await caches.open("pocketquery-files");
    for (const path of ["/a/sha256/older", "/b/sha256/older"]) await cache.put(path, new Response(path));
  });
  found.a = await visited(page, `${address}/a/`);
  found.leftByA = await shared(page);
  await page.click("#consent");
  await page.locator("#taught", { hasText: "what you open is kept" }).waitFor({ timeout: LIMIT });
  found.b = await visited(page, `${address}/b/`);
  found.leftByB = await shared(page);
  const loaded = page.waitForEvent("load", { timeout: LIMIT });
  await page.evaluate("document.getElementById('again').click()"); // as where something was refused
  await loaded;
  found.anew = await seen(page);

  for (const server of servers) await stopped(server);
  both.closeAllConnections();
  both.close();
  await context.setOffline(true);
  found.offline = { a: await visited(page, `${address}/a/`), b: await visited(page, `${address}/b/`) };
  await context.close();
  return found;
});
