/**
 * Write src/runtime/kernels_wasm.ts from kernels.ts; with --print, print it only.
 *
 *     node scripts/runtime/compile.mjs
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";
import { packedModule } from "../packed_module.mjs";

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
const said = "scripts/runtime/kernels.ts, compiled by scripts/runtime/compile.mjs";
const module = packedModule(said, "KERNELS", files.get("kernels.wasm"));
if (process.argv.includes("--print")) process.stdout.write(module);
else writeFileSync(target, module);
