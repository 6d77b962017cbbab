/** 50 queries in three modes with seven filters: the hits are Python's in every engine. `make test-js` writes them. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { call, CHROMIUM, inPage, SEARCHES } from "../browser.js";
import { PACKAGE } from "../fixtures.js";
import { bundled, inHermes, inQuickJs, packedFile } from "./engines.js";

const ENGINES = join(PACKAGE, "test", "engines");
const TOOLS = join(ENGINES, "tools", "node_modules");
const missing = !existsSync(join(SEARCHES, "expected.json")) && "make test-js writes the searches";

interface Found {
  searches: number;
  hits: number;
  different: number;
  first: unknown[];
}

function assertEqual({ searches, hits, different, first }: Found): void {
  assert.deepEqual([searches, different, first], [1050, 0, []]);
  assert.ok(hits > 9_000, `${hits} hits`); // of filters that few documents meet there are less than ten
}

function run(program: string, ...options: string[]): Found {
  const found = execFileSync(program, [...options, join(ENGINES, "searches.mjs"), SEARCHES], { encoding: "utf8" });
  return JSON.parse(found) as Found;
}

/** The program of one of test/engines/tools' packages for this machine; of those that fit, the first that is there. */
function tool(scope: string, path: string): string | undefined {
  const folder = join(TOOLS, scope);
  const fitting = existsSync(folder) ? readdirSync(folder).sort() : [];
  return fitting.map((name) => join(folder, name, path)).find((program) => existsSync(program));
}

test("in Node", { skip: missing }, () => assertEqual(run(process.execPath)));

test("in Chromium", { skip: missing || (!existsSync(CHROMIUM) && "no Chromium") }, async () => {
  await inPage("engines/searches.html", async (page) => assertEqual(await call<Found>(page, "searched")));
});

const engines = { Hermes: inHermes, ...(process.env["POCKETQUERY_SLOW"] && { QuickJS: inQuickJs }) };

for (const [engine, ran] of Object.entries(engines)) {
  test(`in ${engine}`, { skip: missing }, async () => {
    const names = ["index.json", "documents.sqlite", "vectors-0.u8"];
    const files = Object.fromEntries(names.map((name) => [name, packedFile(SEARCHES, "index", name)]));
    const data = JSON.stringify({ ...files, expected: readFileSync(join(SEARCHES, "expected.json"), "utf8") });
    const code = await bundled("searches_main.js", "test");
    assertEqual(JSON.parse(await ran(code, data)) as Found);
  });
}

const [bun, deno] = [tool("@oven", "bin/bun"), tool("@deno", "deno")];

test("in Bun", { skip: missing || (!bun && "no Bun in test/engines/tools") }, () => assertEqual(run(bun!)));

test("in Deno", { skip: missing || (!deno && "no Deno in test/engines/tools") }, () => assertEqual(run(deno!, "run", "-A")));
