/**
 * How long a dense search takes over 100,000 vectors of 384 dimensions, with SIMD and without, in
 * Node and, where `CHROMIUM` names the program, in Chromium.
 *
 *     npm run build && CHROMIUM=/usr/bin/chromium node scripts/index/bench.mjs
 *
 * The last line is JSON; the exit status is 1 where SIMD is not three times as fast. The least of
 * many runs is what a busy machine can tell.
 */
import { build } from "esbuild";

const measure = `
  import { Vectors } from "./dist/index/vectors/vectors.js";
  const [count, dimension] = [100_000, 384];
  const rows = new Uint8Array(count * (dimension + 4));
  let state = 1;
  for (let i = 0; i < rows.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    rows[i] = 1 + ((state >>> 24) % 255);
  }
  const view = new DataView(rows.buffer);
  for (let row = 0; row < count; row++) view.setFloat32(row * (dimension + 4) + dimension, 0.001, true);
  const query = Float32Array.from({ length: dimension }, (_, i) => Math.sin(i) / 14);
  export function measured(simd) {
    const vectors = new Vectors(dimension, simd);
    vectors.append(rows, "the rows");
    const times = [];
    for (let round = 0; round < 40; round++) {
      const begin = performance.now();
      vectors.search(query, 10);
      times.push(performance.now() - begin);
    }
    times.sort((a, b) => a - b);
    return { least: times[0], median: times[20] };
  }
  globalThis.result = JSON.stringify({ simd: measured(true), plain: measured(false) });
`;

const bundled = await build({
  stdin: { contents: measure, resolveDir: new URL("../..", import.meta.url).pathname },
  bundle: true,
  write: false,
  format: "iife",
  logLevel: "error",
});
const script = bundled.outputFiles[0].text;

const results = {};
(0, eval)(script);
results.node = JSON.parse(globalThis.result);
if (process.env.CHROMIUM) {
  const { chromium } = await import("playwright-core");
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  const page = await browser.newPage();
  results.chromium = JSON.parse(await page.evaluate(`${script}; globalThis.result`));
  await browser.close();
}
for (const [name, { simd, plain }] of Object.entries(results)) {
  const ratio = (plain.least / simd.least).toFixed(1);
  console.log(`${name}: ${simd.least.toFixed(1)} ms with SIMD, ${ratio} times as fast as without`);
}
console.log(JSON.stringify(results));
process.exitCode = Object.values(results).every((r) => r.plain.least > 3 * r.simd.least) ? 0 : 1;
