/**
 * Write src/runtime/kernels_wasm.ts from kernels.ts; with --print, print it only.
 *
 *     node scripts/runtime/compile.mjs
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";

const source = fileURLToPath(new URL("kernels.ts", import.meta.url));
const target = new URL("../../src/runtime/kernels_wasm.ts", import.meta.url);

const options = ["--optimizeLevel", "3", "--noAssert", "--runtime", "stub", "--enable", "simd"];
const files = new Map();
const { error, stderr } = await asc.main(["kernels.ts", ...options, "--outFile", "kernels.wasm"], {
  readFile: (name) => (name === "kernels.ts" ? readFileSync(source, "utf8") : null),
  writeFile: (name, contents) => void files.set(name, contents),
  listFiles: () => [],
});
if (error) throw new Error(`${error.message}\n${stderr}`);
const text = Buffer.from(files.get("kernels.wasm")).toString("base64");
const lines = text.match(/.{1,90}/g).map((line) => `  "${line}"`);
const module =
  "/** scripts/runtime/kernels.ts, compiled by scripts/runtime/compile.mjs; base64. */\n" +
  `export const KERNELS =\n${lines.join(" +\n")};\n`;
if (process.argv.includes("--print")) process.stdout.write(module);
else writeFileSync(target, module);
