/**
 * A page in Chromium in a private round through a gateway, from another origin; test_javascript.py
 * starts it.
 *
 *     node javascript_page.mjs '{"package": ..., "chromium": ..., "port": ..., "gateway": ...,
 *         "key": ..., "certificate": ..., "authority": ..., "rules": {...}, "now": ...}'
 *
 * It serves the package and a page on loopback, has the page take part with a change that is made up,
 * closes it as soon as its masked change is there, opens it again, and prints what came of the round.
 */

import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join, normalize } from "node:path";
import { pathToFileURL } from "node:url";

const settings = JSON.parse(process.argv[2]);
const library = pathToFileURL(join(settings.package, "node_modules", "playwright-core", "index.mjs")).href;
const { chromium } = await import(library);
const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
const PAGE = `<!doctype html><meta charset="utf-8" /><script type="module">
  import { parseAdapter } from "/dist/bundle/adapter.js";
  import { agreementKeyOfBytes } from "/dist/gateway/agreement.js";
  import { GatewayConnection, IndexedDbPlace, Participation } from "/dist/gateway.js";
  import { Participant } from "/dist/secure/secure.js";
  import { IndexedDbBackend, QueryStore } from "/dist/store.js";

  const fromHex = (digits) => Uint8Array.from(digits.match(/../g), (pair) => Number.parseInt(pair, 16));
  window.takePart = async ({ gateway, key, certificate, authority, rules, now }) => {
    const store = await QueryStore.open(new IndexedDbBackend());
    await store.giveConsent();
    const place = new IndexedDbPlace();
    place.deviceKey = () => agreementKeyOfBytes(fromHex(key));
    const device = {
      train: async (offer, release) => {
        const { tensors } = await parseAdapter(release, "the release");
        const change = [...tensors].map(([name, { shape, data }]) => {
          return [name, { shape, data: data.map((_, i) => 1e-4 * Math.sin(i)) }];
        });
        return { epoch: await store.epoch(), change: new Map(change) };
      },
      forgotten: async (epoch) => ((await store.epoch()) === epoch ? null : "erased"),
    };
    const participant = await Participant.open({
      device, store, place, certificate: fromHex(certificate), authority, rules, clock: () => now,
    });
    const sleep = () => new Promise((done) => setTimeout(done, 50));
    const participation = new Participation(new GatewayConnection(gateway, await place.signer(), { sleep, attempts: 200 }), place);
    let outcome = await participation.takePart(participant);
    for (; outcome.what === "idle"; await sleep()) outcome = await participation.takePart(participant);
    return outcome;
  };
</script>`;

const server = createServer((request, response) => {
  const file = join(settings.package, normalize(request.url ?? ""));
  if (request.url === "/") response.writeHead(200, { "content-type": "text/html" }).end(PAGE);
  else if (!request.url.startsWith("/dist/") || !existsSync(file)) response.writeHead(404).end();
  else response.writeHead(200, { "content-type": "text/javascript" }).end(readFileSync(file));
}).listen(settings.port, "127.0.0.1");
const browser = await chromium.launch({ executablePath: settings.chromium, headless: true, args: ARGUMENTS });
try {
  const context = await browser.newContext();
  const opened = async () => {
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${settings.port}/`);
    await page.waitForFunction("window.takePart !== undefined");
    return page;
  };
  const first = await opened();
  const masked = first.waitForResponse((response) => response.url().endsWith("/secure/3") && response.request().method() === "PUT");
  const closed = first.evaluate((given) => window.takePart(given), settings).then(() => false, () => true);
  await masked;
  await first.close();
  const second = await opened();
  const outcome = await second.evaluate((given) => window.takePart(given), settings);
  console.log(JSON.stringify({ closed: await closed, outcome }));
} finally {
  await browser.close();
  server.closeAllConnections();
  server.close();
}
