/**
 * Write src/index/vectors/integer_product_wasm.ts from integer_product.wat.
 *
 *     npm install --no-save wabt@1.0.39 && node scripts/index/assemble.mjs
 */
import { readFileSync, writeFileSync } from "node:fs";
import wabt from "wabt";
import { packedModule } from "../packed_module.mjs";

const source = new URL("integer_product.wat", import.meta.url);
const target = new URL("../../src/index/vectors/integer_product_wasm.ts", import.meta.url);

const module = (await wabt()).parseWat("integer_product.wat", readFileSync(source, "utf8"), { simd: true });
module.validate();
const said = "scripts/index/integer_product.wat, assembled by scripts/index/assemble.mjs";
writeFileSync(target, packedModule(said, "INTEGER_PRODUCT", module.toBinary({}).buffer));
