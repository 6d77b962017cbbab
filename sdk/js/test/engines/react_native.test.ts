/** `pocketquery/react-native` in Hermes and QuickJS, which have neither WebAssembly nor WebCrypto nor TextDecoder. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { CONFORMANCE, EXPECTED, FIXTURES, read, TINY } from "../fixtures.js";
import { type AppData, run } from "./app.js";
import { bundled, inHermes, inQuickJs, packedFile } from "./engines.js";

function inFolder(name: string, ...path: string[]): [string, string][] {
  return readdirSync(join(...path)).map((file) => [`${name}/${file}`, packedFile(...path, file)]);
}

const { searches } = JSON.parse(readFileSync(join(CONFORMANCE, "search", "expected.json"), "utf8")) as AppData;
const texts = EXPECTED.texts.flatMap((_, i) => (i % 4 === 0 ? [i] : []));
const DATA = JSON.stringify({
  files: Object.fromEntries([
    ...inFolder("documents/tiny", TINY),
    ...inFolder("documents/index", CONFORMANCE, "search", "index"),
    ["documents/tiny.zip", packedFile(FIXTURES, "tiny.zip")],
  ]),
  texts: texts.map((i) => EXPECTED.texts[i]!),
  vectors: texts.map((i) => EXPECTED.tiny.vectors[i]!),
  release: read("release.safetensors").toString("base64"),
  swapped: texts.map((i) => EXPECTED.swapped.vectors[i]!),
  searches,
} satisfies AppData);

const STEPS = ["verify", "encode", "search", "add, delete, open again", "add, delete, open again", "compact", "swap", "swap back", "ended", "a key"];

function check(said: readonly string[]): void {
  assert.equal(said.at(-1), "done", said.at(-1));
  const steps = said.slice(0, -1).map((line) => JSON.parse(line) as { step: string; cases: number; wrong: unknown[] });
  assert.deepEqual(steps.filter(({ cases, wrong }) => !cases || wrong.length), []);
  assert.deepEqual(steps.map(({ step }) => step), STEPS);
}

test("an app's own part, in Node", async () => {
  const lines: string[] = [];
  await run(DATA, (line) => void lines.push(line));
  check(lines);
});

for (const [engine, ran] of Object.entries({ Hermes: inHermes, QuickJS: inQuickJs })) {
  test(`an app's own part, in ${engine}`, async () => {
    check((await ran(await bundled("app_main.js"), DATA)).trim().split("\n"));
  });
}
