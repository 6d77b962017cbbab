/**
 * Write src/index/vectors/integer_product_wasm.ts from integer_product.wat.
 *
 *     npm install --no-save wabt@1.0.39 && node scripts/index/assemble.mjs
 */
import { readFileSync, writeFileSync } from "node:fs";
import wabt from "wabt";

const source = new URL("integer_product.wat", import.meta.url);
const target = new URL("../../src/index/vectors/integer_product_wasm.ts", import.meta.url);

const module = (await wabt()).parseWat("integer_product.wat", readFileSync(source, "utf8"), { simd: true });
module.validate();
const text = Buffer.from(module.toBinary({}).buffer).toString("base64");
const lines = text.match(/.{1,90}/g).map((line) => `  "${line}"`);
writeFileSync(
  target,
  "/** scripts/index/integer_product.wat, assembled by scripts/index/assemble.mjs; base64. */\n" +
    `export const INTEGER_PRODUCT =\n${lines.join(" +\n")};\n`,
);
