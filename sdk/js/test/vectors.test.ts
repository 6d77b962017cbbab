/** What every implementation computes: conformance/, made by Python. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { openTokenizer, PocketQueryError } from "pocketquery";
import { openIndex, type SearchOptions } from "pocketquery/index";
import { type Encoder, FolderSource, load } from "pocketquery/node";
import { follow, isOlder, parseLineage, parseStatement, targetFor } from "pocketquery/releases";
import { CONFORMANCE, EXPECTED, TINY } from "./fixtures.js";

function unpacked<T>(...path: string[]): T {
  const data = readFileSync(join(CONFORMANCE, ...path));
  return JSON.parse((path.at(-1)?.endsWith(".gz") ? gunzipSync(data) : data).toString("utf8")) as T;
}

const CLOSE = 1e-5; // how far a float32 sum in another order is from Python's

const bytesOf = (digits: string): Uint8Array => Uint8Array.from(Buffer.from(digits, "hex"));
const nameOf = (error: unknown): string =>
  error instanceof PocketQueryError ? error.name : String(error);

test("every setting of a WordPiece tokenizer gives Python's ids", () => {
  const { tokenizer, texts, cases } = unpacked<{
    tokenizer: object;
    texts: string[];
    cases: { name: string; change: object; max_length: number; ids: number[][] }[];
  }>("tokenizer", "wordpiece.json.gz");
  for (const { name, change, max_length, ids } of cases) {
    const data = new TextEncoder().encode(JSON.stringify({ ...tokenizer, ...change }));
    const opened = openTokenizer("wordpiece", data, max_length);
    assert.deepEqual(texts.map((text) => opened.encode(text)), ids, name);
  }
});

interface Lineages {
  cases: {
    name: string;
    lineage: string;
    known: string | null;
    version: string | null;
    public_key: string;
    error?: string;
    sequence?: number;
    targets?: Record<string, string>;
  }[];
  older: [string, string, boolean][];
}

test("a registry's statements are followed, or refused, as Python does it", async () => {
  const { cases, older } = unpacked<Lineages>("lineage", "lineages.json.gz");
  const encoder = new TextEncoder();
  for (const { name, lineage, known, version, public_key, error, sequence, targets } of cases) {
    const followed = async () =>
      follow(parseLineage(encoder.encode(lineage)), {
        known: known === null ? null : parseStatement(encoder.encode(known)),
        publicKey: public_key,
        ...(version === null ? {} : { version }),
      });
    if (error !== undefined) {
      assert.equal(await followed().then(() => "nothing", nameOf), error, name);
      continue;
    }
    const newest = await followed();
    assert.equal(newest.sequence, sequence, name);
    for (const [secret, wanted] of Object.entries(targets ?? {})) {
      assert.equal((await targetFor(newest, bytesOf(secret))).version, wanted, name);
    }
  }
  for (const [left, right, wanted] of older) assert.equal(isOlder(left, right), wanted, `${left} ${right}`);
});

test("a changed byte of a lineage is refused, or changes nothing of what is followed", async () => {
  const { cases } = unpacked<Lineages>("lineage", "lineages.json.gz");
  const { lineage, public_key: publicKey } = cases.find(({ name }) => name === "several") ?? assert.fail();
  const sound = new TextEncoder().encode(lineage);
  const newest = await follow(parseLineage(sound), { publicKey });
  for (let at = 0; at < sound.length; at += 11) {
    const changed = sound.slice();
    changed[at] = (changed[at] as number) ^ (1 << (at % 7));
    const found = await (async () => follow(parseLineage(changed), { publicKey }))().catch(nameOf);
    // Without the first statement's signature the second, which the same key signed, is the first.
    if (typeof found === "object") assert.deepEqual(found, newest, `byte ${at}`);
    else assert.match(found, /^(CorruptArtifact|UnsupportedVersion|Signature)Error$/, `byte ${at}`);
  }
});

interface Searches {
  searches: (SearchOptions & { query: string; hits: [string, number, number | null, number | null][] })[];
  inputs: { call: string; text: unknown; options: Record<string, unknown>; place: string; error: string }[];
}

const SEARCHES = unpacked<Searches>("search", "expected.json");
const INDEX = join(CONFORMANCE, "search", "index");

test("text queries find what they find in Python, in three modes and with filters", async () => {
  const encoder = await load(TINY);
  await openIndex(new FolderSource(INDEX), { publicKey: EXPECTED.key });
  const index = await openIndex(new FolderSource(INDEX), { encoder });
  for (const { query, hits, filter, ...options } of SEARCHES.searches) {
    const found = await index.search(query, { ...options, ...(filter ? { filter } : {}) });
    assert.equal(found.length, hits.length, query);
    for (const [i, { id, score }] of found.entries()) {
      const [wanted, expected] = hits[i] ?? ["", Number.NaN];
      assert.ok(Math.abs(score - expected) < CLOSE, query);
      // Another order only where Python's own scores are that close.
      const its = hits.find(([other]) => other === id)?.[1] ?? hits.at(-1)?.[1] ?? Number.NaN;
      assert.ok(id === wanted || Math.abs(its - expected) < CLOSE, `${query}: ${id}, not ${wanted}`);
    }
  }
  await encoder.close();
});

test("what is no text, no query and no index of this space is refused as in Python", async () => {
  const encoder = await load(TINY);
  const index = await openIndex(new FolderSource(INDEX), { encoder });
  for (const one of SEARCHES.inputs) {
    const found = await called(encoder, index, one).then(() => "nothing", nameOf);
    assert.equal(found, one.error, JSON.stringify(one));
  }
  await encoder.close();
});

type Index = Awaited<ReturnType<typeof openIndex>>;

async function called(encoder: Encoder, index: Index, one: Searches["inputs"][number]): Promise<unknown> {
  const { prompt_name: promptName, truncate_dim: truncateDim, ...rest } = one.options ?? {};
  const options: any = {
    ...rest,
    ...(promptName === undefined ? {} : { promptName }),
    ...(truncateDim === undefined ? {} : { truncateDim }),
  };
  if (one.call === "encode") return encoder.encode(one.text as never, options);
  if (one.call === "open") return openIndex(new FolderSource(join(CONFORMANCE, one.place)), { encoder });
  return index.search(one.text as string, options);
}
