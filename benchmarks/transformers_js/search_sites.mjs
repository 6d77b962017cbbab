/**
 * Pages that search the same documents: by pocketquery, by words alone and hybrid, by transformers.js with the same
 * encoder and vectors beside the documents, by Orama and by MiniSearch, each as its README shows. All are bundled and
 * minified by esbuild, but transformers.js, which comes so.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "../../sdk/js/node_modules/esbuild/lib/main.js";

const HERE = dirname(fileURLToPath(import.meta.url));

const OURS = `
  import { FetchSource, load } from "pocketquery/web";
  import { openIndex } from "pocketquery/index";
  export { FetchSource, load, openIndex };`;

/** Each page's `find(query)` gives the ids of the ten best; made before the first search. */
const FIND = {
  hybrid: `
    import { FetchSource, load, openIndex } from "/app/ours.js";
    const index = await openIndex(new FetchSource("/index"), { encoder: load("/bundle") });
    const find = async (query) => (await index.search(query)).map(({ id }) => id);`,
  words: `
    import { FetchSource, openIndex } from "/app/ours.js";
    const index = await openIndex(new FetchSource("/index"));
    const find = async (query) => (await index.search(query, { mode: "lexical" })).map(({ id }) => id);`,
  orama: `
    import { create, insertMultiple, search } from "/app/orama.js";
    const documents = await (await fetch("/documents/documents.json")).json();
    const database = create({ schema: { id: "string", title: "string", text: "string" } });
    await insertMultiple(database, documents, 500);
    const find = async (term) => {
      const { hits } = await search(database, { term, properties: ["title", "text"], limit: 10 });
      return hits.map(({ document }) => document.id);
    };`,
  minisearch: `
    import { MiniSearch } from "/app/minisearch.js";
    const documents = await (await fetch("/documents/documents.json")).json();
    const index = new MiniSearch({ fields: ["title", "text"] });
    index.addAll(documents);
    const find = async (query) => index.search(query).slice(0, 10).map(({ id }) => id);`,
};

const THEIRS_FIND = `
      const bytes = async (name) => (await fetch("/documents/" + name)).arrayBuffer();
      const [documents, vectors] = await Promise.all([
        bytes("documents.json").then((json) => JSON.parse(new TextDecoder().decode(json))),
        bytes("vectors.f32").then((buffer) => new Float32Array(buffer)),
      ]);
      const find = async (query) => {
        const { sentence_embedding: { data } } = await model(await tokenizer(query, { truncation: true }));
        const scores = documents.map((_, row) => {
          let sum = 0;
          for (let i = 0, at = row * data.length; i < data.length; i++, at++) sum += data[i] * vectors[at];
          return sum;
        });
        const order = scores.map((_, row) => row).sort((a, b) => scores[b] - scores[a]);
        return order.slice(0, 10).map((row) => documents[row].id);
      };`;

/** The sites by name; `vector` has the pages that make one vector, whose loading of transformers.js is taken. */
export async function searchSites({ bundle, text, pages }, vector) {
  const app = join(pages, "app");
  mkdirSync(app, { recursive: true });
  const bundled = (name, contents, resolveDir) =>
    build({
      stdin: { contents, resolveDir, sourcefile: `${name}.js` },
      entryNames: name, bundle: true, splitting: true, minify: true, format: "esm", outdir: app, logLevel: "error",
      external: ["onnxruntime-*"],
    });
  await bundled("ours", OURS, join(HERE, "../../sdk/js"));
  await bundled("orama", 'export { create, insertMultiple, search } from "@orama/orama";', HERE);
  await bundled("minisearch", 'export { default as MiniSearch } from "minisearch";', HERE);
  const queries = JSON.parse(readFileSync(join(pages, "queries.json"), "utf8")).map(({ id, text }) => [id, text]);
  const loading = vector.theirs.script.split("const { sentence_embedding")[0];
  const finds = { ...FIND, transformers: `${loading}${THEIRS_FIND}` };
  const roots = { app, bundle, index: join(pages, "index"), documents: join(pages, "documents") };
  return Object.fromEntries(
    Object.entries(finds).map(([name, find]) => [
      name,
      { roots: { ...roots, ...(name === "transformers" && vector.theirs.roots) }, script: `${find}${asking(text, queries)}` },
    ]),
  );
}

/** The first search; where the address says so all queries, with the median of their milliseconds. */
function asking(text, queries) {
  return `
    const first = await find(${JSON.stringify(text)});
    const ms = performance.now();
    let answers;
    if (location.search === "?all") {
      const [found, times] = [{}, []];
      for (const [id, query] of ${JSON.stringify(queries)}) {
        const begin = performance.now();
        found[id] = await find(query);
        times.push(performance.now() - begin);
      }
      answers = { found, ms: times.sort((a, b) => a - b)[times.length >> 1] };
    }
    window.result = { ms, first, answers };`;
}
