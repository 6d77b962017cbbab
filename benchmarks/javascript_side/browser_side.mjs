/**
 * The JavaScript SDK in Chromium; benchmarks/javascript.py starts it with its settings in JSON, and
 * reads the JSON of its last line.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { browserAt, counted, median, served } from "./serving.mjs";

const settings = JSON.parse(process.argv[2]);
const { bundle, index, sdk, chromium, python, serve, queries, texts, out, rounds } = settings;
const PAGE = `<!doctype html><meta charset="utf-8"><script type="module">
  import * as onnxruntime from "/onnxruntime-web/ort.wasm.min.mjs";
  import { load } from "/dist/pocketquery.min.js";
  import { Vectors } from "/dist/index/vectors/vectors.js";
  onnxruntime.env.wasm.wasmPaths = "/onnxruntime-web/";
  onnxruntime.env.wasm.numThreads = 1;
  const encoder = await load("/bundle");
  const encoders = { own: encoder, web: await load("/bundle", { onnxruntime }) };
  window.measure = {
    encode: async (name, texts) => (await encoders[name].encode(texts)).map((one) => Array.from(one)),
    async time(name, queries) {
      const times = [];
      for (const query of queries) {
        const begin = performance.now();
        await encoders[name].encode(query);
        times.push(performance.now() - begin);
      }
      return times;
    },
    /** A dense search of 100,000 documents, without and with the query's encoding. */
    async search(queries, rounds) {
      const [count, dimension] = [100_000, encoder.dimension];
      const rows = new Uint8Array(count * (dimension + 4));
      let state = 1;
      for (let i = 0; i < rows.length; i++) {
        state = (Math.imul(state, 1664525) + 1013904223) | 0;
        rows[i] = 1 + ((state >>> 24) % 255);
      }
      const view = new DataView(rows.buffer);
      for (let row = 0; row < count; row++) view.setFloat32(row * (dimension + 4) + dimension, 0.001, true);
      const vectors = new Vectors(dimension, true);
      vectors.append(rows, "the rows");
      const times = [];
      for (let round = 0; round < rounds; round++) {
        const query = await encoder.encode(queries[round % queries.length]);
        const begin = performance.now();
        vectors.search(query, 10);
        times.push(performance.now() - begin);
      }
      return times;
    },
  };
</script>`;

async function library(browser) {
  const roots = {
    dist: join(sdk, "dist"), bundle, "onnxruntime-web": join(sdk, "node_modules/onnxruntime-web/dist"),
  };
  const server = await served(roots, { "/": PAGE });
  const page = await browser.newPage();
  await page.goto(`${server.address}/`);
  await page.waitForFunction("window.measure !== undefined", undefined, { timeout: 120_000 });
  const all = JSON.parse(readFileSync(texts, "utf8"));
  const vectors = {};
  const encode = { own: [], web: [] };
  for (const name of ["own", "web"]) {
    vectors[name] = await page.evaluate(([one, those]) => window.measure.encode(one, those), [name, all]);
  }
  writeFileSync(out, JSON.stringify(vectors));
  for (let round = 0; round < rounds; round++) {
    for (const name of ["own", "web"]) {
      encode[name].push(median(await page.evaluate(([one, those]) => window.measure.time(one, those), [name, queries])));
    }
  }
  const search = await page.evaluate(([all, count]) => window.measure.search(all, count), [queries, 5 * rounds]);
  await page.close();
  await server.close();
  return { encode, search: median(search) };
}

/** In the page: types a query; the milliseconds until its results stand there. */
const TYPED = `(query) => new Promise((resolve) => {
  const [input, status] = [document.getElementById("query"), document.getElementById("status")];
  status.textContent = "";
  const begin = performance.now();
  const seen = new MutationObserver(() => {
    if (!/ ms/.test(status.textContent)) return;
    seen.disconnect();
    resolve({ since: performance.now(), ms: performance.now() - begin });
  });
  seen.observe(status, { childList: true, characterData: true, subtree: true });
  input.value = query;
  input.dispatchEvent(new Event("input", { bubbles: true }));
})`;

async function page(browser) {
  const options = [serve, "--bundle", bundle, "--index", index, "--port", "0"];
  const server = spawn(python, options, { stdio: ["ignore", "pipe", "inherit"] });
  try {
    let address = "";
    for await (const line of createInterface({ input: server.stdout })) {
      address = line.split(" ")[0];
      break;
    }
    const proxy = await counted(Number(new URL(address).port));
    const context = await browser.newContext();
    const tab = await context.newPage();
    await tab.goto(proxy.address);
    await tab.waitForSelector("html[data-ready=true]", { timeout: 300_000 });
    const bytes = proxy.counter.bytes;
    await context.setOffline(true);
    const first = [];
    const further = [];
    for (let round = 0; round < Math.max(3, Math.ceil(rounds / 3)); round++) {
      await tab.reload({ waitUntil: "domcontentloaded" });
      first.push((await tab.evaluate(`(${TYPED})(${JSON.stringify(queries[0])})`)).since);
      await tab.waitForSelector("html[data-ready]", { timeout: 300_000 });
      for (const query of queries.slice(1)) {
        further.push((await tab.evaluate(`(${TYPED})(${JSON.stringify(query)})`)).ms);
      }
    }
    await context.close();
    proxy.close();
    return { bytes, first: median(first), further: median(further) };
  } finally {
    const ended = once(server, "exit");
    server.kill();
    await ended;
  }
}

const browser = await browserAt(chromium);
try {
  console.log(JSON.stringify({ ...(await library(browser)), page: await page(browser) }));
} finally {
  await browser.close();
}
