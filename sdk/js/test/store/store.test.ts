/** The query store beside Python's, in memory and in a file; IndexedDB is tested in the browser. */

import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import promises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { ArtifactError, CorruptArtifactError, InvalidInputError, UnsupportedVersionError } from "pocketquery";
import { FileBackend } from "pocketquery/node";
import { MemoryBackend, QueryStore, type StoreBackend } from "pocketquery/store";
import { ageAt, NO_AGE, stampOf } from "../../dist/store/expiry.js";
import { CONFORMANCE } from "../fixtures.js";

interface Step {
  now: number;
  do: string;
  query: string;
  shown?: string[];
  opened?: string | null;
  result?: boolean;
  consent: boolean;
  renewed: boolean;
  kept: [string, string[], string | null, number | null][];
}

interface Expected {
  lives: Step[][];
  ages: [now: number, opening: boolean, [seconds: number, seen: number, origin: number | null, landed: number | null, stamp: number]][][];
}

/** Of a clock that jumps, and of one that was ahead at first and was put right. */
const [JUMPS, SET_BACK] = ["store", "set_back"].map((name) =>
  JSON.parse(gunzipSync(readFileSync(join(CONFORMANCE, "store", `${name}.json.gz`))).toString("utf8")),
) as [Expected, Expected];
const FOLDER = mkdtempSync(join(tmpdir(), "pocketquery-store-"));
after(() => rmSync(FOLDER, { recursive: true, force: true }));
const LIMITS = { maxRows: 6, maxAgeDays: 30, maxBytes: 220 };

test("a query's age is counted as in Python", () => {
  for (const readings of [...JUMPS.ages, ...SET_BACK.ages]) {
    let age = NO_AGE;
    for (const [now, opening, [seconds, seen, origin, landed, stamp]] of readings) {
      age = ageAt(age, now, 15 * 86_400, opening);
      assert.deepEqual([age.seconds, age.seen, age.origin, stampOf(age)], [seconds, seen, origin, stamp]);
      // The older file knows none of a clock that went back to before `origin`.
      if (SET_BACK.ages.includes(readings)) assert.equal(age.landed, landed);
    }
  }
  assert.equal(ageAt(NO_AGE, Number.NaN, 1), NO_AGE);
});

async function lived(steps: Step[], place: StoreBackend): Promise<void> {
  let now = steps[0]?.now ?? 0;
  const open = () => QueryStore.open(place, { ...LIMITS, clock: () => now });
  let store = await open();
  for (const [i, step] of steps.entries()) {
    now = step.now;
    const epoch = await store.epoch();
    let result: boolean | undefined;
    if (step.do === "add") result = await store.add(step.query, step.shown, step.opened);
    else if (step.do === "opened") result = await store.recordOpened(step.query, step.opened ?? "");
    else if (step.do === "forget") await store.forget(step.query);
    else if (step.do === "give") await store.giveConsent();
    else if (step.do === "withdraw") await store.withdrawConsent();
    else if (step.do === "erase") await store.eraseAll();
    else if (step.do === "reopen") {
      store.close();
      store = await open();
    }
    assert.equal(result, step.result, `step ${i}: ${step.do}`);
    assert.equal(await store.consent(), step.consent, `step ${i}: ${step.do}`);
    assert.equal((await store.epoch()) !== epoch, step.renewed, `step ${i}: ${step.do}`);
    const kept = (await store.export()).map(({ query, shown, opened, time }) => [query, shown, opened, time]);
    assert.deepEqual(kept, step.kept, `step ${i}: ${step.do}`);
  }
}

test("a store lives as Python's does, in memory and in a file", async () => {
  for (const [i, steps] of [...JUMPS.lives, ...SET_BACK.lives].entries()) {
    await lived(steps, new MemoryBackend());
    if (i % 12 < 2) await lived(steps, new FileBackend(join(FOLDER, "lives", String(i))));
  }
});

test("what was kept while the clock was ahead goes in time, once it was put right", async () => {
  const [now, day] = [1_800_000_000, 86_400];
  for (const place of [new MemoryBackend(), new FileBackend(join(FOLDER, "ahead"))]) {
    const open = (clock: number) => QueryStore.open(place, { clock: () => clock });
    const store = await open(now + 5_000 * day);
    await store.giveConsent();
    await store.add("what is this rash");
    const kept: number[] = [];
    for (let days = 0; days < 95; days++) kept.push(await (await open(now + days * day)).size());
    assert.deepEqual(kept.slice(0, 90), Array(90).fill(1));
    assert.equal(kept[94], 0);
  }
});

test("nothing is kept before consent, and nothing after it is withdrawn", async () => {
  const path = join(FOLDER, "consent");
  const store = await QueryStore.open(new FileBackend(path));
  assert.equal(await store.add("a secret question", ["a"], "a"), false);
  assert.equal(await store.recordOpened("a secret question", "a"), false);
  assert.equal(await store.keep({ adapter: Uint8Array.of(1) }, await store.epoch()), false);
  assert.doesNotMatch(readFileSync(path, "utf8"), /secret/);
  await store.giveConsent();
  assert.equal(await store.add("a secret question", ["a"], "a"), true);
  assert.match(readFileSync(path, "utf8"), /secret/);
  assert.equal(statSync(path).mode & 0o077, 0);
  await store.withdrawConsent();
  assert.doesNotMatch(readFileSync(path, "utf8"), /secret/);
  assert.deepEqual([await store.consent(), await store.size()], [false, 0]);
});

test("what was made of the queries goes with them", async () => {
  const store = await QueryStore.open();
  await store.giveConsent();
  const made = Uint8Array.of(1, 2, 3);
  for (const erase of [
    () => store.eraseAll(),
    () => store.forget("never asked"),
    () => store.withdrawConsent().then(() => store.giveConsent()),
  ]) {
    await store.add("oil crisis");
    const epoch = await store.epoch();
    assert.equal(await store.keep({ adapter: made }, epoch), true);
    made[0] = 9; // a copy was kept
    assert.deepEqual(await store.kept("adapter"), Uint8Array.of(1, 2, 3));
    made[0] = 1;
    await erase();
    assert.equal(await store.kept("adapter"), null);
    assert.equal(await store.keep({ adapter: made }, epoch), false); // it was trained on what is gone
  }
  await store.keep({ adapter: made }, await store.epoch());
  await store.dropKept();
  assert.equal(await store.kept("adapter"), null);
});

test("what is left of a private round goes a day later, when the store is opened", async () => {
  for (const place of [new MemoryBackend(), new FileBackend(join(FOLDER, "round"))]) {
    let now = 1_800_000_000;
    const open = () => QueryStore.open(place, { clock: () => now });
    const store = await open();
    await store.giveConsent();
    const keep = async () => store.keep({ secure: Uint8Array.of(1), rounds: Uint8Array.of(2) }, await store.epoch());
    for (const [later, stays] of [[86_399, true], [86_400, false], [-86_399, true], [-86_400, false]] as const) {
      await keep();
      now += later;
      const opened = await open();
      assert.equal((await opened.kept("secure")) !== null, stays, String(later));
      assert.deepEqual(await opened.kept("rounds"), Uint8Array.of(2));
    }
    // An earlier release did not note when.
    await keep();
    await place.transact(({ state: { roundKept, ...state } }) => ({ result: roundKept, state }));
    assert.equal(await (await open()).kept("secure"), null);
  }
});

test("what expires goes from a store that stays open, where it is tidied", async () => {
  for (const place of [new MemoryBackend(), new FileBackend(join(FOLDER, "open"))]) {
    let now = 1_800_000_000;
    const store = await QueryStore.open(place, { clock: () => now, maxAgeDays: 7 });
    await store.giveConsent();
    await store.add("an old query");
    const epoch = await store.epoch();
    await store.keep({ secure: Uint8Array.of(1), rounds: Uint8Array.of(2), adapter: Uint8Array.of(3) }, epoch);
    const kept: number[] = [];
    for (let day = 1; day <= 8; day++) {
      now += 86_400;
      await store.tidy();
      kept.push(await store.size());
      if (day === 7) assert.deepEqual(await store.kept("rounds"), Uint8Array.of(2));
    }
    assert.deepEqual(kept, [1, 1, 1, 1, 1, 1, 1, 0]); // as Python's does
    assert.equal(await store.kept("rounds"), null);
    assert.deepEqual(await store.kept("secure"), Uint8Array.of(1)); // a round that is under way is its device's
    assert.notEqual(await store.epoch(), epoch);
    await place.transact(({ rows }) => ({ result: assert.deepEqual(rows, []) }));
  }
});

test("what plain rounds left goes with the last query that expires", async () => {
  for (const place of [new MemoryBackend(), new FileBackend(join(FOLDER, "rounds"))]) {
    let now = 1_800_000_000;
    const open = () => QueryStore.open(place, { clock: () => now, maxAgeDays: 7 });
    const store = await open();
    await store.giveConsent();
    await store.add("an old query");
    const epoch = await store.epoch();
    await store.keep({ rounds: Uint8Array.of(2), adapter: Uint8Array.of(3) }, epoch);
    for (let day = 0; day < 6; day++, now += 86_400) await open();
    assert.deepEqual(await (await open()).kept("rounds"), Uint8Array.of(2));
    for (let day = 0; day < 6; day++, now += 86_400) await open();
    const later = await open();
    assert.equal(await later.size(), 0);
    assert.equal(await later.kept("rounds"), null);
    assert.deepEqual(await later.kept("adapter"), Uint8Array.of(3)); // the app's own
    assert.notEqual(await later.epoch(), epoch);
  }
});

test("a query is forgotten in whichever case it was typed", async () => {
  const store = await QueryStore.open();
  await store.giveConsent();
  const typed = ["große Straße", "GROSSE STRASSE", "GRO\u1e9eE STRA\u1e9eE", "Gro\u1e9ee, Straße!"];
  for (const query of typed) {
    for (const other of typed) await store.add(other);
    await store.forget(query);
    assert.equal(await store.size(), 0, query);
  }
});

test("what is no query is refused", async () => {
  const store = await QueryStore.open();
  await store.giveConsent();
  await assert.rejects(store.add("a\ud800"), InvalidInputError);
  await assert.rejects(store.add("a", ["b"], "c"), /opened is 'c', expected one of the 1 shown ids/);
  await assert.rejects(store.add("a", "b" as never), InvalidInputError);
  await assert.rejects(store.add("a", ["b", , "c"] as never), /^InvalidInputError: shown\[1\] is undefined/);
  assert.equal(await store.size(), 0);
  const epoch = await store.epoch();
  for (const bytes of [new ArrayBuffer(8), "abc", undefined] as never[]) {
    await assert.rejects(store.keep({ a: bytes }, epoch), /^InvalidInputError: 'a' is .*, expected a Uint8Array/);
    await assert.rejects(store.keptOr("a", bytes, epoch), InvalidInputError);
  }
  await assert.rejects(QueryStore.open(new MemoryBackend(), { maxrows: 5 } as never), /found 'maxrows'/);
  await assert.rejects(store.examples(0), InvalidInputError);
  assert.equal(await store.add("x".repeat(5 << 20)), false);
  for (const limits of [{ maxRows: 0 }, { maxAgeDays: 0 }, { maxAgeDays: Number.NaN }, { maxBytes: 0.5 }]) {
    await assert.rejects(QueryStore.open(new MemoryBackend(), limits), InvalidInputError);
  }
  store.close();
  await assert.rejects(store.add("a"), /is closed; open it again/);
});

test("a damaged file is refused, and can be destroyed", async () => {
  const path = join(FOLDER, "damaged");
  const place = new FileBackend(path);
  const store = await QueryStore.open(place);
  await store.giveConsent();
  await store.add("oil crisis");
  const sound = readFileSync(path, "utf8");
  for (const broken of ["", "{", "null", "[]", '{"rows":[null]}', sound.replace("true", "1"), sound.replace("oil crisis", "oil").replace('"shown":[]', '"shown":3')]) {
    writeFileSync(path, broken);
    await assert.rejects(QueryStore.open(place), CorruptArtifactError, broken);
  }
  writeFileSync(path, sound.replace('"version":1', '"version":2'));
  await assert.rejects(QueryStore.open(place), UnsupportedVersionError);
  await QueryStore.destroy(place);
  assert.ok(!existsSync(path));
  await QueryStore.destroy(place);
  assert.equal(await (await QueryStore.open(place)).consent(), false);
});

test("two stores on one file keep what each of them is given", async () => {
  const place = (): FileBackend => new FileBackend(join(FOLDER, "shared"));
  const stores = [await QueryStore.open(place()), await QueryStore.open(place())];
  await stores[0]?.giveConsent();
  const added = stores.flatMap((store, s) => Array.from({ length: 20 }, (_, i) => store.add(`query ${s} ${i}`)));
  assert.deepEqual(new Set(await Promise.all(added)), new Set([true]));
  assert.equal(await stores[1]?.size(), 40);
  assert.deepEqual(readdirSync(FOLDER).filter((name) => name.startsWith("shared")), ["shared"]);
});

test("whoever erases erases what a killed program left beside the file", async () => {
  const folder = join(FOLDER, "left");
  const place = new FileBackend(join(folder, "store"));
  const store = await QueryStore.open(place);
  const others = ["store.12.other.tmp", "store.tmp", "store2.12.tmp"];
  for (const name of others) writeFileSync(join(folder, name), "another's");
  for (const erase of [
    () => store.forget("never asked"),
    () => store.eraseAll(),
    () => store.withdrawConsent(),
    () => QueryStore.destroy(place),
    () => QueryStore.destroy(place),
  ]) {
    for (const name of ["store.4711.tmp", "store.0a1b2c3d.tmp"]) writeFileSync(join(folder, name), "a secret question");
    await store.giveConsent();
    await erase();
    assert.deepEqual(readdirSync(folder).filter((name) => name !== "store").sort(), others);
  }
});

test("without space nothing is changed, and erasing works", async () => {
  const path = join(FOLDER, "full");
  const store = await QueryStore.open(new FileBackend(path));
  await store.giveConsent();
  await store.add("a secret question");
  await store.add("another");
  const { open, rm } = promises;
  let [isFull, freed] = [true, false];
  promises.open = async (...given: Parameters<typeof open>) => {
    const file = await open(...given);
    if (!isFull || !String(given[0]).endsWith(".tmp")) return file;
    const write = (): never => {
      throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
    };
    return Object.assign(file, { write });
  };
  promises.rm = async (...given: Parameters<typeof rm>) => {
    await rm(...given);
    if (given[0] === path) isFull = !freed;
  };
  syncBuiltinESMExports();
  try {
    await assert.rejects(store.add("one more"), /no space left on device.*nothing was changed/);
    assert.equal(await store.size(), 2);
    freed = true; // what the old file took is enough for the new one
    await store.forget("a secret question");
    assert.deepEqual([await store.consent(), (await store.examples()).map(({ query }) => query)], [true, ["another"]]);
    [isFull, freed] = [true, false]; // it is not
    await store.forget("never asked");
    assert.ok(!existsSync(path));
    isFull = false;
    assert.deepEqual([await store.consent(), await store.size()], [false, 0]);
  } finally {
    Object.assign(promises, { open, rm });
    syncBuiltinESMExports();
  }
});

test("what cannot be written changes nothing", { skip: process.getuid?.() === 0 && "as root everything can be" }, async () => {
  const path = join(FOLDER, "locked", "store");
  const store = await QueryStore.open(new FileBackend(path));
  chmodSync(join(FOLDER, "locked"), 0o500);
  await assert.rejects(store.giveConsent(), ArtifactError);
  chmodSync(join(FOLDER, "locked"), 0o700);
  assert.equal(await store.consent(), false);
});
