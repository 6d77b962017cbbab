/**
 * What a search costs in Hermes, which has no WebAssembly and interprets: `npm run build && npx tsc -p test`, then
 *
 *     node scripts/index/bench_hermes.mjs
 *
 * 10,000 documents of the built-in encoder's 384 dimensions, as bytecode: the products of all rows in packed rows,
 * a loop over four rows at a time for comparison, and a whole search by meaning. In milliseconds of processor time,
 * which a busy machine stretches less than the clock's; the least of three. Fails above 80 ms.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundled, hermes } from "../../.test/engines/engines.js";

const MOST_MS = 80;

writeFileSync(
  new URL("../../.test/engines/bench_hermes.js", import.meta.url),
  `
import { integerMatrix } from "../../dist/index/vectors/integer_product.js";
import { quantize, unitVector, Vectors } from "../../dist/index/vectors/vectors.js";

const [count, dimension] = [10_000, 384];
let seed = 7;
const draw = () => (seed = (seed * 48271) % 2147483647) / 2147483647 - 0.5;
const some = Array.from({ length: 100 }, () => quantize(unitVector(Array.from({ length: dimension }, draw), dimension, "one")));
const rows = new Uint8Array(count * (dimension + 4));
for (let row = 0; row < count; row++) rows.set(some[row % 100], row * (dimension + 4));
const matrix = integerMatrix(dimension + 4, false);
matrix.append(rows);
const vectors = new Vectors(dimension, false);
vectors.append(rows, "the file");
const query = unitVector(Array.from({ length: dimension }, draw), dimension, "the query");
const coarse = Int8Array.from(query, (value) => Math.round(value * 400));

function loop() {
  const out = new Int32Array(count);
  const [stride, by] = [dimension + 4, Array.from(coarse)];
  for (let row = 0; row < count; row += 4) {
    let a = 0, b = 0, c = 0, d = 0;
    let first = row * stride, second = first + stride, third = second + stride, fourth = third + stride;
    for (let i = 0; i < dimension; i++) {
      const factor = by[i];
      a += rows[first++] * factor;
      b += rows[second++] * factor;
      c += rows[third++] * factor;
      d += rows[fourth++] * factor;
    }
    out[row] = a, out[row + 1] = b, out[row + 2] = c, out[row + 3] = d;
  }
  return out;
}

if (String(loop()) !== String(matrix.products(coarse))) throw new Error("other products");
const works = { products: () => matrix.products(coarse), loop, search: () => vectors.search(query, 10), nothing: () => undefined };
for (let round = 0; round < ROUNDS; round++) works[WORK]();
`,
);

const ROUNDS = 20;
const folder = mkdtempSync(join(tmpdir(), "pocketquery-bench-"));
const code = await bundled("bench_hermes.js");

/** Processor seconds of the whole program. */
function seconds(work) {
  const [file, bytecode] = [join(folder, `${work}.js`), join(folder, `${work}.hbc`)];
  writeFileSync(file, `globalThis.WORK = "${work}"; globalThis.ROUNDS = ${ROUNDS};\n${code}`);
  execFileSync(hermes("hermesc"), ["-O", "-w", "-emit-binary", "-out", bytecode, file]);
  const times = [1, 2, 3].map(() => {
    const { stderr } = spawnSync("bash", ["-c", `TIMEFORMAT=%U; time "${hermes("hermes")}" -b "${bytecode}"`], { encoding: "utf8" });
    return Number(stderr);
  });
  return Math.min(...times);
}

const nothing = seconds("nothing");
const found = {};
for (const work of ["products", "loop", "search"]) found[work] = Math.round((1000 * (seconds(work) - nothing)) / ROUNDS);
rmSync(folder, { recursive: true });
console.log(JSON.stringify({ ...found, ratio: Number((found.loop / found.products).toFixed(1)), most: MOST_MS }));
process.exitCode = Math.max(found.products, found.search) <= MOST_MS ? 0 : 1; // NaN fails, too
