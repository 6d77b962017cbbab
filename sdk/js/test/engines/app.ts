/**
 * An app of React Native, without its pictures: a bundle and an index that lie in its files, changes that
 * outlast it, through `pocketquery/react-native` alone. react_native.test.ts runs it in Hermes and QuickJS.
 */

import {
  type Encoder,
  type FileSystem,
  FileSystemChanges,
  fromBase64,
  type Hit,
  type Index,
  openIndex,
  openSource,
  load,
  type SearchOptions,
  toBase64,
  verify,
} from "pocketquery/react-native";

/** Files by path in base 64, texts with their vectors, searches with their hits. */
export interface AppData {
  files: Record<string, string>;
  texts: string[];
  vectors: number[][];
  release: string;
  swapped: number[][];
  searches: ({ query: string; hits: [string, number, number | null, number | null][] } & SearchOptions)[];
}

/** As react-native-fs has it: base 64, errors for what is missing, no move over a file that is there. */
function fileSystem(files: Map<string, string>): FileSystem {
  const there = (path: string): Uint8Array => {
    const packed = files.get(path);
    if (packed === undefined) throw new Error(`ENOENT: no such file or directory, open '${path}'`);
    return fromBase64(packed);
  };
  return {
    size: async (path) => (files.has(path) ? there(path).length : null),
    read: async (path, begin, length) => toBase64(there(path).subarray(begin, begin + length)),
    write: async (path, bytes) => void files.set(path, toBase64(bytes)),
    append: async (path, bytes) => void files.set(path, toBase64(Uint8Array.from([...there(path), ...bytes]))),
    move: async (from, to) => {
      files.set(to, toBase64(there(from)));
      files.delete(from);
    },
  };
}

/** Does what an app does; tells each step with what is wrong, nothing at best. */
export async function run(text: string, tell: (line: string) => void): Promise<void> {
  const data = JSON.parse(text) as AppData;
  const files = fileSystem(new Map(Object.entries(data.files)));
  const changes = (): FileSystemChanges => new FileSystemChanges(files, "documents/changes");
  const open = async (encoder: Encoder): Promise<Index> =>
    openIndex(await openSource(files, "documents/index"), { encoder, changes: changes() });
  const say = (step: string, cases: number, wrong: unknown[]): void => tell(JSON.stringify({ step, cases, wrong: wrong.slice(0, 5) }));

  const encoder = await load(await openSource(files, "documents/tiny.zip"));
  const report = await verify(await openSource(files, "documents/tiny"));
  say("verify", report.golden.texts, report.golden.leastCosine > 0.999 ? [] : [report.golden]);
  say("encode", data.texts.length, await apart(encoder, data.texts, data.vectors));

  const index = await open(encoder);
  const wrong: unknown[] = [];
  for (const { query, hits, ...options } of data.searches) {
    const found = await index.search(query, options);
    if (!areSame(found, hits)) wrong.push([query, options.mode, options.filter, shown(found), hits]);
  }
  say("search", data.searches.length, wrong);

  const size = index.size;
  const notes = ["the bridge was built in 1932", "water the beans in March", "Ñandú über 東京"];
  await index.add(notes.map((note, i) => ({ id: `note${i}`, text: note, metadata: { year: 2030 } })));
  const stored = (await index.search("sugar", { k: 1, filter: { year: { $lt: 2030 } } }))[0]!.id;
  await index.delete(["note0", stored]);
  const again = await open(encoder);
  for (const one of [index, again]) {
    const found = await one.search("water the beans", { k: 5, filter: { year: { $gte: 2030 } } });
    const state = [one.size, one.get("note0"), one.get(stored), found.map(({ id }) => id)];
    say("add, delete, open again", 1, differing(state, [size + 1, undefined, undefined, ["note1", "note2"]]));
  }
  await again.compact();
  say("compact", 1, differing((await open(encoder)).size, size + 1));

  await encoder.swapAdapter(fromBase64(data.release));
  say("swap", data.texts.length, await apart(encoder, data.texts, data.swapped));
  await encoder.swapAdapter(null);
  say("swap back", data.texts.length, await apart(encoder, data.texts, data.vectors));

  const signal = { aborted: true } as AbortSignal; // all that is asked of one
  const ended = again.add([{ id: "ended", text: "never there" }], null, { signal });
  say("ended", 1, differing([await nameOf(ended), again.get("ended")], ["AbortError", undefined]));
  const forged = load(await openSource(files, "documents/tiny"), { publicKey: "00".repeat(32) });
  say("a key", 1, ["MissingExtraError", "SignatureError"].includes(await nameOf(forged)) ? [] : [await nameOf(forged)]);
  await encoder.close();
  tell("done");
}

async function apart(encoder: Encoder, texts: string[], vectors: number[][]): Promise<unknown[]> {
  const found = await encoder.encode(texts);
  return texts.filter((_, i) => !(cosine(found[i]!, vectors[i]!) > 0.9999));
}

function cosine(left: ArrayLike<number>, right: ArrayLike<number>): number {
  let [product, a, b] = [0, 0, 0];
  for (let i = 0; i < left.length; i++) {
    product += left[i]! * right[i]!;
    a += left[i]! ** 2;
    b += right[i]! ** 2;
  }
  return product / Math.sqrt(a * b);
}

/** Hits whose scores are within rounding of each other may change places. */
function areSame(found: readonly Hit[], hits: AppData["searches"][number]["hits"]): boolean {
  const near = (one: number | null, other: number | null): boolean =>
    one === other || (one !== null && other !== null && Math.abs(one - other) < SLACK);
  return found.length === hits.length && hits.every(([id, score], place) => {
    const own = found.find((hit) => hit.id === id);
    return near(found[place]!.score, score) && (own ? near(own.score, score) : near(score, hits[hits.length - 1]![1]));
  });
}

const SLACK = 1e-5; // of the tiny encoder, whose int8 rounds otherwise here and there

function shown(hits: readonly Hit[]): unknown {
  return hits.map(({ id, score }) => [id, score]);
}

function differing(found: unknown, wanted: unknown): unknown[] {
  return JSON.stringify(found) === JSON.stringify(wanted) ? [] : [found];
}

function nameOf(work: Promise<unknown>): Promise<string> {
  return work.then(() => "nothing", (error: Error) => error.name);
}
