/** `npm run build`: src/ to dist/, and single files for pages that use no bundler. */

import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
if (process.argv.includes("--clean")) rmSync("dist", { recursive: true, force: true });
execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "."], { stdio: "inherit" });
const single = { bundle: true, minify: true, format: "esm", target: "es2022", logLevel: "warning" };
await build({
  ...single,
  entryPoints: {
    "pocketquery.min": "src/web.ts",
    "pocketquery.worker.min": "src/worker/script.ts",
    "pocketquery.search.worker.min": "src/worker/search_script.ts",
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
if (existsSync("../default")) {
  rmSync("default", { recursive: true, force: true }); // the bundle that comes along, as in Python
  cpSync("../default", "default", { recursive: true });
}
if (existsSync("../../LICENSE")) copyFileSync("../../LICENSE", "LICENSE");
