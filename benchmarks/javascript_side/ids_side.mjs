/** Ids of texts: node ids_side.mjs BUNDLE TEXTS.json IDS.json */

import { readFileSync, writeFileSync } from "node:fs";
import { load } from "../../sdk/js/dist/node.js";

const [, , bundle, texts, out] = process.argv;
const encoder = await load(bundle);
const ids = JSON.parse(readFileSync(texts, "utf8")).map((text) => encoder.tokenize(text));
writeFileSync(out, JSON.stringify(ids));
process.exit(0);
