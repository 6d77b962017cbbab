/**
 * The JavaScript SDK in Node, asked line by line in JSON; benchmarks/javascript.py does the asking.
 * `files` are read and written as they are named; each answer is a line of JSON.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { FolderSource, load } from "../../sdk/js/dist/node.js";
import { openIndex } from "../../sdk/js/dist/index/index.js";

const MODES = ["dense", "lexical", "hybrid"];
const read = (path) => JSON.parse(readFileSync(path, "utf8"));
let encoder = null;
let index = null;

const answers = {
  async open({ bundle, place }) {
    encoder = await load(bundle);
    index = await openIndex(new FolderSource(place), { encoder });
    return { documents: index.size };
  },
  ids({ texts, out }) {
    writeFileSync(out, JSON.stringify(read(texts).map((text) => encoder.tokenize(text))));
    return {};
  },
  async vectors({ texts, out }) {
    const vectors = await encoder.encode(read(texts));
    writeFileSync(out, Buffer.concat(vectors.map((one) => Buffer.from(one.buffer, one.byteOffset, one.byteLength))));
    return {};
  },
  async hits({ queries, k, out }) {
    const found = [];
    for (const query of read(queries)) {
      const vector = await encoder.encodeQuery(query);
      const modes = [];
      for (const mode of MODES) {
        const hits = await index.search(query, { mode, k, ...(mode === "lexical" ? {} : { vector }) });
        modes.push(hits.map(({ id, score }) => [id, score]));
      }
      found.push(modes);
    }
    writeFileSync(out, JSON.stringify(found));
    return {};
  },
  /** The milliseconds of each query. */
  async time({ queries }) {
    const times = [];
    for (const query of queries) {
      const begin = performance.now();
      await encoder.encode(query);
      times.push(performance.now() - begin);
    }
    return { times };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...options } = JSON.parse(line);
  console.log(JSON.stringify(await answers[name](options)));
}
