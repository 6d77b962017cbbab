/**
 * Two pages that make one vector with the same model, one by pocketquery, one by transformers.js;
 * benchmarks/transformers_js.py starts it with its settings in JSON and reads its last line.
 *
 * Each visit is of a fresh browser context, so nothing is cached; they take turns. The servers
 * compress alike.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { browserAt, median, served } from "../javascript_side/serving.mjs";

const { bundle, models, sdk, chromium, text, rounds } = JSON.parse(process.argv[2]);
const OWN = fileURLToPath(new URL("node_modules", import.meta.url));
const RESULT = "window.result = { ms: performance.now(), vector: Array.from(vector) };";
const SITES = {
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

async function visited(browser, { roots, script }) {
  const page = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script type="module">${script}</script>`;
  const site = await served(roots, { "/": page });
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
async function once(browser, { address }) {
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
    await tab.goto(`${address}/`);
    const made = tab.waitForFunction("window.result !== undefined", undefined, { timeout: 120_000 });
    made.catch(() => undefined); // where the page failed before
    await Promise.race([made, failed]);
    return await tab.evaluate("window.result");
  } finally {
    await context.close();
  }
}

const browser = await browserAt(chromium);
const found = { ours: [], theirs: [] };
try {
  for (let round = 0; round < rounds; round++) {
    for (const name of round % 2 ? ["theirs", "ours"] : ["ours", "theirs"]) {
      found[name].push(await visited(browser, SITES[name]));
    }
  }
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
    },
  ]),
);
console.log(JSON.stringify(report));
