/** Search, tokenizers and store in Hermes, as bytecode, and in QuickJS. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { openIndex } from "pocketquery/index";
import { FolderSource, load } from "pocketquery/node";
import { CONFORMANCE, EXPECTED, TINY } from "../fixtures.js";
import { bundled, type Engine, inHermes, inQuickJs, packedFile } from "./engines.js";
import { type Answers, type Data, run } from "./runner.js";

/** All cases take an interpreter minutes: POCKETQUERY_SLOW=1. Else one in so many. */
const STEP = process.env["POCKETQUERY_SLOW"] ? 1 : 25;
const LEAST_CASES = 3_400 / STEP; // less would mean that something was not read

function some<T>(cases: readonly T[]): T[] {
  return cases.filter((_, i) => i % STEP === 0);
}

function someOf(answers: Answers): Answers {
  return { size: answers.size, searches: some(answers.searches), filters: some(answers.filters ?? []) };
}

function text(...path: string[]): string {
  const data = readFileSync(join(CONFORMANCE, ...path));
  return (path[path.length - 1]!.endsWith(".gz") ? gunzipSync(data) : data).toString("utf8");
}

function packed(...path: string[]): Record<string, string> {
  const folder = join(CONFORMANCE, ...path);
  return Object.fromEntries(readdirSync(folder).map((name) => [name, packedFile(folder, name)]));
}

/** What the runner is given, as JSON. */
async function packedData(): Promise<string> {
  const encoder = await load(TINY);
  const { searches } = JSON.parse(text("search", "expected.json")) as { searches: Data["search"]["searches"] };
  const vectors: Record<string, number[]> = {};
  const recording = {
    spaceId: encoder.spaceId,
    reads: () => true,
    encodeQuery: async (asked: string) => {
      const vector = await encoder.encodeQuery(asked);
      vectors[asked] = Array.from(vector);
      return vector;
    },
  };
  const index = await openIndex(new FolderSource(join(CONFORMANCE, "search", "index")), { encoder: recording as never });
  for (const { query } of searches) await index.search(query, { mode: "hybrid" });
  const unread = Object.keys(vectors).filter((asked) => !encoder.reads(asked));
  await encoder.close();
  const { base, compact, changed, changes } = JSON.parse(text("index", "expected.json.gz")) as Data;
  const models = Object.entries(EXPECTED.models).map(([name, { texts, ids }]) => ({
    model: packedFile(CONFORMANCE, "encoder", `${name}.model`),
    texts: some(texts),
    ids: some(ids),
  }));
  const wordpiece = JSON.parse(text("tokenizer", "wordpiece.json.gz")) as Data["wordpiece"];
  const data: Data = {
    indexes: {
      base: packed("index", "base"),
      compact: packed("index", "compact"),
      search: packed("search", "index"),
    },
    dimension: 24,
    base: someOf(base),
    compact: someOf(compact),
    changed: someOf(changed),
    changes,
    words: some((JSON.parse(text("words", "terms.json.gz")) as { texts: Data["words"] }).texts),
    search: { size: 30, searches },
    vectors,
    unread,
    wordpiece: {
      tokenizer: wordpiece.tokenizer,
      texts: some(wordpiece.texts),
      cases: wordpiece.cases.filter((_, i) => STEP === 1 || i % 6 === 2).map((one) => ({ ...one, ids: some(one.ids) })),
    },
    sentencepiece: models,
    lives: some(JSON.parse(text("store", "store.json.gz")).lives),
    older: some(JSON.parse(text("lineage", "lineages.json.gz")).older),
    views: ["how do plants make sugar", "Ωmega ñandú", "한국어 검색", "שלום עולם"],
  };
  return JSON.stringify(data);
}

const prepared = Promise.all([packedData(), bundled("main.js")]);

async function expected(): Promise<string[]> {
  const lines: string[] = [];
  await run((await prepared)[0], (line) => void lines.push(line));
  return lines;
}

async function assertSame(engine: Engine): Promise<void> {
  const [data, code] = await prepared;
  const said = (await engine(code, data)).trim().split("\n");
  assert.deepEqual(said, await expected());
}

test("in Node everything is as in Python", async () => {
  const lines = await expected();
  assert.equal(lines.pop(), "done");
  const parts = lines.map((line) => JSON.parse(line) as { part: string; cases: number; wrong: unknown[] });
  assert.deepEqual(parts.filter(({ cases, wrong }) => !cases || wrong.length), []);
  const cases = parts.reduce((sum, part) => sum + part.cases, 0);
  assert.ok(cases > LEAST_CASES, `${cases} cases`);
});

test("in Hermes everything is as in Node", () => assertSame(inHermes));

test("in QuickJS everything is as in Node", () => assertSame(inQuickJs));
