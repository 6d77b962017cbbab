/**
 * Do searches find in this engine what they find in Python? One file for every engine.
 *
 *     python -m tests.java.searches FOLDER    # an index, and what Python finds in it: 1,050 searches
 *     node searches.mjs FOLDER                # bun searches.mjs FOLDER; deno run -A searches.mjs FOLDER
 *
 * Where there are no files, `searched` is called with what was in them.
 */
import { MemorySource } from "pocketquery";
import { openIndex } from "pocketquery/index";

/**
 * Search for everything that Python searched for; ids and scores must be equal, to the last bit.
 *
 * @param read gives the bytes of a file of the index, by its name
 * @param expected what expected.json holds, parsed
 * @returns how many searches and hits there were, how many searches differ, and the first of these
 */
export async function searched(read, expected) {
  const files = new Map();
  for (const name of ["index.json", "documents.sqlite", "vectors-0.u8"]) files.set(name, await read(name));
  const index = await openIndex(new MemorySource(files, "index"), { check: "sizes" }); // hashes need WebCrypto
  const different = [];
  let found = 0;
  for (const { query, mode, k, filter, vector, hits } of expected) {
    const asked = { mode, k, ...(filter && { filter }), ...(vector && { vector }) };
    const made = (await index.search(query, asked)).map(({ id, score }) => [id, score]);
    found += made.length;
    if (JSON.stringify(made) !== JSON.stringify(hits)) different.push({ query, mode, filter, made, hits });
  }
  return { searches: expected.length, hits: found, different: different.length, first: different.slice(0, 3) };
}

const folder = globalThis.process?.argv?.[2];
if (folder !== undefined && /searches\.mjs$/.test(globalThis.process.argv[1] ?? "")) {
  import("node:fs/promises")
    .then(async ({ readFile }) => {
      const read = async (name) => Uint8Array.from(await readFile(`${folder}/${name}`));
      const expected = JSON.parse(await readFile(`${folder}/expected.json`, "utf8"));
      console.log(JSON.stringify(await searched((name) => read(`index/${name}`), expected)));
    });
}
