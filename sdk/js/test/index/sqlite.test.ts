/** The reader of SQLite files reads what SQLite reads. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { CorruptArtifactError } from "pocketquery";
import { SqliteFile, type SqliteRecord } from "../../dist/index/sqlite.js";
import { DATA, drawer } from "./data.js";

type Value = null | number | string | [base64: string];

interface Database {
  file: string;
  items: [number, string, Value, number][];
  terms: [string, number, [string]][];
}

const FILE = process.env["DATABASES"] ?? join(DATA, "databases.json.gz");
const DATABASES = JSON.parse(gunzipSync(readFileSync(FILE)).toString("utf8")) as Database[];

function opened(bytes: Uint8Array): { file: SqliteFile; roots: Record<string, number> } {
  const file = new SqliteFile(bytes, "test.sqlite");
  const entries = file.schema();
  for (const { root, type, sql } of entries) {
    file.check(root, type === "index" || sql?.endsWith("WITHOUT ROWID") ? "index" : "table");
  }
  return { file, roots: Object.fromEntries(entries.map(({ name, root }) => [name, root])) };
}

function same(record: SqliteRecord | undefined, expected: readonly Value[]): void {
  assert.ok(record);
  assert.equal(record.length, expected.length);
  for (const [column, value] of expected.entries()) {
    if (value === null) assert.ok(record.isNull(column));
    else if (typeof value === "number") assert.equal(record.integer(column), value);
    else if (typeof value === "string") assert.equal(record.text(column), value);
    else assert.deepEqual(Buffer.from(record.blob(column)).toString("base64"), value[0]);
  }
}

test("every row, by walking and by looking up", () => {
  for (const { file: base64, items, terms } of DATABASES) {
    const { file, roots } = opened(Buffer.from(base64, "base64"));
    const byName = [...items].sort(([, a], [, b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const [names, itemsRoot, termsRoot] = [
      roots["sqlite_autoindex_items_1"]!, roots["items"]!, roots["terms"]!,
    ];
    const rows = [...file.rows(itemsRoot)];
    assert.deepEqual(rows.map(([rowid]) => rowid), items.map(([rowid]) => rowid));
    for (const [i, [rowid, ...values]] of items.entries()) {
      same(rows[i]![1], [null, ...values]);
      same(file.row(itemsRoot, rowid), [null, ...values]);
      const near = file.row(itemsRoot, rowid + 1);
      assert.equal(near !== undefined, items[i + 1]?.[0] === rowid + 1);
    }
    const entries = [...file.entries(names)];
    assert.equal(entries.length, byName.length);
    for (const [i, [rowid, name]] of byName.entries()) {
      same(entries[i], [name, rowid]);
      const [found, ...more] = file.entries(names, Buffer.from(name));
      same(found, [name, rowid]);
      assert.equal(more.length, 0);
      assert.deepEqual([...file.entries(names, Buffer.from(`${name}\0`))], []);
    }
    assert.equal([...file.entries(termsRoot)].length, terms.length);
    for (const term of new Set(terms.map(([one]) => one))) {
      const expected = terms.filter(([one]) => one === term);
      const found = [...file.entries(termsRoot, Buffer.from(term))];
      assert.equal(found.length, expected.length);
      for (const [i, values] of expected.entries()) same(found[i], values);
    }
  }
});

test("a damaged file is refused or read, in the time its size allows", () => {
  const draw = drawer(1);
  let refused = 0;
  for (let round = 0; round < 1500; round++) {
    const bytes = Buffer.from(DATABASES[round % DATABASES.length]!.file, "base64");
    if (bytes.length > 400_000) continue;
    for (let flips = 0; flips <= draw() * 8; flips++) {
      const page = Math.floor(draw() * 4) * 512; // the headers of the first pages hold most
      const at = draw() < 0.7 ? page + Math.floor(draw() * 60) : Math.floor(draw() * bytes.length);
      bytes[Math.min(at, bytes.length - 1)]! ^= 1 << Math.floor(draw() * 8);
    }
    const cut = draw() < 0.1 ? bytes.subarray(0, Math.floor(draw() * bytes.length)) : bytes;
    try {
      const { file, roots } = opened(cut);
      const { items = 1, terms = 1, sqlite_autoindex_items_1: names = 1 } = roots;
      let read = 0;
      for (const [rowid, record] of file.rows(items)) read += record.length + rowid;
      for (const record of file.entries(names)) read += record.textBytes(0).length;
      for (const record of file.entries(terms, Buffer.from("1"))) read += record.length;
      file.row(items, 7);
      assert.ok(read >= 0);
    } catch (error) {
      assert.ok(error instanceof CorruptArtifactError, String((error as Error).stack));
      refused++;
    }
  }
  assert.ok(refused > 300, `${refused}`);
});

test("what is not of our kind is refused", () => {
  const change = (at: number, ...values: number[]): Uint8Array => {
    const bytes = Buffer.from(DATABASES[1]!.file, "base64");
    bytes.set(values, at);
    return bytes;
  };
  const wrong: [Uint8Array, RegExp][] = [
    [new Uint8Array(0), /no SQLite database/],
    [change(0, 65), /no SQLite database/],
    [change(16, 0, 7), /pages have 7 bytes/],
    [change(18, 2, 2), /WAL/],
    [change(56, 0, 0, 0, 2), /text encoding 2/],
    [change(28, 1, 0, 0, 0), /truncated/],
  ];
  for (const [bytes, message] of wrong) {
    assert.throws(() => new SqliteFile(bytes, "test.sqlite"), (error: Error) => {
      return error instanceof CorruptArtifactError && message.test(error.message);
    });
  }
});
