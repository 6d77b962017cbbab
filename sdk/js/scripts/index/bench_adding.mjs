/**
 * How long a search takes in a worker while 200 notes are added there: the ready worker, the built-in encoder,
 * `pocketquery/runtime`, in Chromium (`CHROMIUM` names the program).
 *
 *     npm run build && node scripts/index/bench_adding.mjs [--rounds=8] [--words=176] [dist another_dist ...]
 *
 * One search after the other, notes of so many words. Several builds take turns, so that what else the machine does
 * meets all. Of each round p50 and p95 of the searches that were answered while notes were added; of all rounds the
 * lower quartile of both. The last line is JSON.
 */
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { loadavg } from "node:os";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));
const given = process.argv.slice(2);
const builds = given.filter((name) => !name.startsWith("--"));
if (builds.length === 0) builds.push("dist");
const numberOf = (name, otherwise) => Number(given.find((one) => one.startsWith(`--${name}=`))?.split("=")[1] ?? otherwise);
const [rounds, words] = [numberOf("rounds", 8), numberOf("words", 176)];

/** In the page: the milliseconds of each search, and of all additions together. */
async function measured(build, changes, words) {
  const { WorkerEncoder, WorkerIndex } = await import(`/${build}/worker/search_worker.js`);
  const worker = new Worker(`/${build}/pocketquery.search.worker.min.js`, { type: "module" });
  const encoder = WorkerEncoder.load(worker, { bundle: new URL("/default", location).href });
  const index = await WorkerIndex.open(worker, { index: null, encoder, changes });
  const note = (i) => ({ id: `note ${i}`, text: `the train to Oslo ${i} leaves at eight from the old station `.repeat(Math.ceil(words / 11)) });
  await index.add([note(-1)]);
  for (let i = 0; i < 20; i++) await index.search("the train to Oslo"); // compiled, and its stemmer is there
  const alone = [];
  for (let i = 0; i < 40; i++) {
    const begin = performance.now();
    await index.search(`train ${i}`, { prefix: true });
    alone.push(performance.now() - begin);
  }
  let isOver = false;
  const begin = performance.now();
  const adding = index.add(Array.from({ length: 200 }, (_, i) => note(i))).then(() => (isOver = true));
  const searches = [];
  while (!isOver) {
    const asked = performance.now();
    await index.search(`train ${searches.length}`, { prefix: true });
    searches.push(performance.now() - asked);
  }
  await adding;
  const took = performance.now() - begin;
  worker.terminate();
  return { alone, searches, took };
}

const roots = Object.fromEntries([...builds.map((build, i) => [`${i}`, build]), ["default", join(PACKAGE, "default")]]);
const types = { ".js": "text/javascript", ".html": "text/html" };
const server = createServer((request, response) => {
  const [, root = "", ...rest] = normalize(decodeURI(request.url)).split("/");
  const file = join(roots[root] ?? "/nowhere", ...rest);
  if (root === "") response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>bench</title>");
  else if (!existsSync(file)) response.writeHead(404).end();
  else response.writeHead(200, { "content-type": types[extname(file)] ?? "application/octet-stream" }).end(readFileSync(file));
}).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));

const quantile = (values, q) => [...values].sort((a, b) => a - b)[Math.floor(q * (values.length - 1))];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage();
await page.goto(`http://127.0.0.1:${server.address().port}/`);
const found = builds.map(() => []);
for (let round = 0; round < rounds; round++) {
  for (const [i, build] of builds.entries()) {
    const { alone, searches, took } = await page.evaluate(`(${measured})("${i}", "notes ${i} ${round}", ${words})`);
    const [p50, p95] = [0.5, 0.95].map((q) => quantile(searches, q));
    found[i].push({ alone: quantile(alone, 0.5), p50, p95, took });
    const times = `p50 ${p50.toFixed(0)}, p95 ${p95.toFixed(0)} ms of ${searches.length}; ${quantile(alone, 0.5).toFixed(0)} ms alone`;
    console.log(`${build}: ${times}; added in ${(took / 1000).toFixed(1)} s; load ${loadavg()[0].toFixed(1)}`);
  }
}
await browser.close();
server.close();
const quartile = (all, name) => Number(quantile(all.map((one) => one[name]), 0.25).toFixed(1));
const summary = builds.map((build, i) => [build, Object.fromEntries(["alone", "p50", "p95", "took"].map((name) => [name, quartile(found[i], name)]))]);
console.log(JSON.stringify(Object.fromEntries(summary)));
