/**
 * Two pages that make one vector with the same model, one by pocketquery, one by transformers.js; or, where
 * `pages` is given, those that search (search_sites.mjs). benchmarks/transformers_js.py starts it with its settings
 * in JSON and reads its last line.
 *
 * Each visit is of a fresh browser context, so nothing is cached; they take turns. The servers
 * compress alike.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { browserAt, median, served } from "../javascript_side/serving.mjs";
import { searchSites } from "./search_sites.mjs";

const settings = JSON.parse(process.argv[2]);
const { bundle, models, sdk, chromium, text, rounds, pages } = settings;
const OWN = fileURLToPath(new URL("node_modules", import.meta.url));
const RESULT = "window.result = { ms: performance.now(), vector: Array.from(vector) };";
const VECTOR_SITES = {
  ours: {
    roots: { bundle, dist: join(sdk, "dist") },
    script: `
      import { load } from "/dist/pocketquery.min.js";
      const encoder = await load("/bundle");
      const vector = await encoder.encode(${JSON.stringify(text)});
      ${RESULT}`,
  },
  theirs: {
    roots: {
      models, dist: join(OWN, "@huggingface/transformers/dist"), runtime: join(OWN, "onnxruntime-web/dist"),
    },
    script: `
      import { AutoModel, AutoTokenizer, env } from "/dist/transformers.min.js";
      env.allowRemoteModels = false;
      env.allowLocalModels = true;
      env.localModelPath = "/models/";
      env.useBrowserCache = false;
      env.backends.onnx.wasm.wasmPaths = "/runtime/";
      env.backends.onnx.wasm.numThreads = 1;
      const options = { dtype: "q8", device: "wasm" };
      const [tokenizer, model] = await Promise.all([
        AutoTokenizer.from_pretrained("student"), AutoModel.from_pretrained("student", options),
      ]);
      const { sentence_embedding: found } = await model(await tokenizer(${JSON.stringify(text)}));
      const vector = found.data;
      ${RESULT}`,
  },
};

const SITES = pages ? await searchSites(settings, VECTOR_SITES) : VECTOR_SITES;

const pageOf = (script) =>
  `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script type="module">${script}</script>`;

async function visited(browser, { roots, script }) {
  const site = await served(roots, { "/": pageOf(script) });
  try {
    await once(browser, site); // so that the server's compressing counts for neither
    site.sent.clear();
    const result = await once(browser, site);
    return { ...result, sent: Object.fromEntries(site.sent) };
  } finally {
    await site.close();
  }
}

/** One visit of a browser that knows nothing; refused where the page fails or asks elsewhere. */
async function once(browser, { address }, asked = "") {
  const context = await browser.newContext();
  try {
    const tab = await context.newPage();
    const failed = new Promise((_, reject) => {
      tab.on("pageerror", reject);
      tab.on("request", (request) => {
        const url = request.url();
        if (/^https?:/.test(url) && !url.startsWith(address)) reject(new Error(`it asks for ${url}`));
      });
    });
    await tab.goto(`${address}/${asked}`);
    const made = tab.waitForFunction("window.result !== undefined", undefined, { timeout: 600_000, polling: 50 });
    made.catch(() => undefined); // where the page failed before
    await Promise.race([made, failed]);
    return await tab.evaluate("window.result");
  } finally {
    await context.close();
  }
}

/** What the page answers to all queries, in a visit of its own. */
async function answered(browser, { roots, script }) {
  const site = await served(roots, { "/": pageOf(script) });
  try {
    return (await once(browser, site, "?all")).answers;
  } finally {
    await site.close();
  }
}

const browser = await browserAt(chromium);
const names = Object.keys(SITES);
const found = Object.fromEntries(names.map((name) => [name, []]));
try {
  for (let round = 0; round < rounds; round++) {
    for (const name of round % 2 ? names.toReversed() : names) {
      found[name].push(await visited(browser, SITES[name]));
      console.error(`round ${round}, ${name}: ${found[name][round].ms.toFixed()} ms`);
    }
  }
  for (const name of pages ? names : []) found[name][0].answers = await answered(browser, SITES[name]);
} finally {
  await browser.close();
}
const report = Object.fromEntries(
  Object.entries(found).map(([name, visits]) => [
    name,
    {
      ms: median(visits.map(({ ms }) => ms)),
      bytes: Object.values(visits[0].sent).reduce((sum, bytes) => sum + bytes, 0),
      sent: visits[0].sent,
      vector: visits[0].vector,
      answers: visits[0].answers,
    },
  ]),
);
console.log(JSON.stringify(report));
