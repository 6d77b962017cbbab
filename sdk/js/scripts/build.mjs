/** `npm run build`: src/ to dist/, and single files for pages that use no bundler. */

import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
if (process.argv.includes("--clean")) rmSync("dist", { recursive: true, force: true });
execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "."], { stdio: "inherit" });
// TypeScript before 5.7 knows typed arrays without the kind of their buffer.
for (const file of readdirSync("dist", { recursive: true }).filter((name) => name.endsWith(".d.ts"))) {
  const text = readFileSync(`dist/${file}`, "utf8");
  const plain = text.replace(/\b(\w+Array)<ArrayBuffer(Like)?>/g, "$1");
  if (plain !== text) writeFileSync(`dist/${file}`, plain);
}
// The stemmers are Python's; src/words/stemmers/stemmers.d.ts declares them.
const ours = "../../.venv/bin/python";
const python = existsSync(ours) ? ours : (process.env.PYTHON ?? "python3");
const made = spawnSync(python, ["scripts/words/stemmers.py", "dist/words/stemmers"], { encoding: "utf8" });
if (made.status !== 0) {
  const why = made.error?.message ?? made.stderr;
  throw new Error(`${python} did not write the stemmers; expected a Python with snowballstemmer (PYTHON=...): ${why}`);
}
copyFileSync("src/words/stemmers/stemmers.d.ts", "dist/words/stemmers/stemmers.d.ts");
const single = { bundle: true, minify: true, format: "esm", target: "es2022", logLevel: "warning" };
await build({
  ...single,
  entryPoints: {
    "pocketquery.min": "dist/web.js",
    "pocketquery.worker.min": "dist/worker/script.js",
    "pocketquery.search.worker.min": "dist/worker/search_script.js",
  },
  outdir: "dist",
});
// The compressor drops the comments that tell bundlers to leave an address alone (src/worker/worker.ts).
for (const name of ["worker", "search.worker"]) {
  const file = `dist/pocketquery.${name}.min.js`;
  const hints = "/* webpackIgnore: true *//* turbopackIgnore: true *//* @vite-ignore */";
  const [before, after, ...others] = readFileSync(file, "utf8").split(/(?<=\bimport\()(?=\w+\.module\))/);
  if (after === undefined || others.length > 0) throw new Error(`${file}: expected one import of an address`);
  writeFileSync(file, `${before}${hints}${after}`);
}
// What comes from others goes into the files that need it, with its licence.
for (const [file, other] of [["chacha20", "@noble/ciphers"], ["hashes", "@noble/hashes"]]) {
  const licence = readFileSync(`node_modules/${other}/LICENSE`, "utf8").trim();
  await build({
    bundle: true,
    format: "esm",
    target: "es2022",
    logLevel: "warning",
    entryPoints: [`dist/secure/${file}.js`],
    external: ["../errors.js"],
    outfile: `dist/secure/${file}.js`,
    allowOverwrite: true,
    banner: { js: `/* ${other}\n\n${licence} */` },
  });
}
// For `require`, in Jest above all: one file, so that each class is there once, and a name for each entry.
const { exports: entries } = JSON.parse(readFileSync("package.json", "utf8"));
const REACT = "./dist/require/react.cjs"; // by itself: who has no React requires the others, too
const required = Object.values(entries).filter(({ node }) => ![undefined, REACT].includes(node?.require));
await build({
  ...single,
  minify: false, // Node shows the line of an error that nobody catches
  stdin: {
    contents: required.map((entry, i) => `export * as entry${i} from "${entry.default}";`).join("\n"),
    resolveDir: ".",
  },
  format: "cjs",
  platform: "node",
  external: ["onnxruntime-node"],
  supported: { "dynamic-import": false }, // which Jest refuses
  define: { "import.meta.url": "__url" },
  banner: { js: 'const __url = require("node:url").pathToFileURL(__filename).href;' },
  outfile: "dist/required.cjs",
});
mkdirSync("dist/require", { recursive: true });
for (const [i, { node }] of required.entries()) {
  writeFileSync(node.require, `module.exports = require("../required.cjs").entry${i};\n`);
}
await build({ entryPoints: ["dist/react/react.js"], format: "cjs", target: "es2022", outfile: REACT });
if (existsSync("../default")) {
  rmSync("default", { recursive: true, force: true }); // the built-in bundle, as in Python
  cpSync("../default", "default", { recursive: true });
}
if (existsSync("../../LICENSE")) copyFileSync("../../LICENSE", "LICENSE");
