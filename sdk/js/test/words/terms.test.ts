/** Terms of texts, queries, and what a vocabulary adds, as in Python: conformance/words/terms.json.gz. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { gunzipSync } from "node:zlib";
import { Analyzer } from "../../dist/words/analyzer.js";
import { loadProgram } from "../../dist/words/languages.js";
import { withoutOperators } from "../../dist/words/query.js";
import { expand, Vocabulary } from "../../dist/words/vocabulary.js";
import { byCodePoint } from "../../dist/python_text.js";
import { CONFORMANCE } from "../fixtures.js";

interface Cases {
  texts: [language: string, text: string, terms: Record<string, number>, length: number][];
  vocabulary: Record<string, number>;
  queries: [language: string, text: string, prefix: boolean, query: Record<string, unknown>, weights: [string, number][], instead: [string, string][]][];
}

const CASES = JSON.parse(gunzipSync(readFileSync(join(CONFORMANCE, "words", "terms.json.gz"))).toString("utf8")) as Cases;
const analyzers = new Map<string, Analyzer>();

function analyzerOf(language: string): Analyzer {
  const analyzer = analyzers.get(language) ?? new Analyzer(language, loadProgram);
  analyzers.set(language, analyzer);
  return analyzer;
}

test("terms of texts and their lengths", async () => {
  for (const [language, text, expected, length] of CASES.texts) {
    const found = await analyzerOf(language).occurrences(text);
    const terms = Object.fromEntries([...found.terms].sort(([left], [right]) => byCodePoint(left, right)));
    assert.deepEqual({ terms, length: found.length }, { terms: expected, length }, `${language}: ${text}`);
  }
});

test("what is remembered of texts keeps none of them in memory", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const analyzer = new Analyzer("english", loadProgram);
  const read = (number: number) => analyzer.occurrences(`beside seashellseashell${number} ${"a ".repeat(50_000)}seashellseashell${number}`);
  await read(0);
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let number = 1; number <= 100; number++) await read(number);
  collect();
  assert.ok(process.memoryUsage().heapUsed - before < 3_000_000);
});

test("queries, and what a vocabulary adds to them, in the same order", async () => {
  const vocabulary = new Vocabulary(Object.keys(CASES.vocabulary).sort(byCodePoint), (term) => CASES.vocabulary[term] ?? 0);
  const sorted = (some: Iterable<string>): string[] => [...some].sort(byCodePoint);
  for (const [language, text, prefix, expected, weights, instead] of CASES.queries) {
    const analyzer = analyzerOf(language);
    const query = await analyzer.query(text, prefix);
    const found = {
      plain: query.plain,
      terms: [...query.terms],
      words: [...query.words],
      beside: sorted(query.beside),
      required: sorted(query.required),
      excluded: query.excluded.map(sorted),
      phrases: query.phrases,
      excluded_phrases: query.excludedPhrases,
      required_phrases: query.requiredPhrases,
      prefix: query.prefix,
    };
    assert.deepEqual(found, expected, `${language}: ${text}`);
    const made = await analyzer.complete(() => expand(query, vocabulary, analyzer));
    assert.deepEqual([[...made.weights], [...made.instead]], [weights, instead], `${language}: ${text}`);
  }
});

test("a text that nobody typed as a query demands nothing", () => {
  for (const [text, plain] of [
    ['a "b c" -d', "a b c d"],
    ["„eins zwei“ +drei", "eins zwei drei"],
    ['"-word"', "word"],
    ["e-mail --flag 5\"", "e-mail --flag 5\""],
  ] as const) {
    assert.equal(withoutOperators(text), plain);
  }
});
