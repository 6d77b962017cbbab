/** What users get: the packed files, their sizes, and the README's snippets. */

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { build } from "esbuild";
import * as core from "pocketquery";
import * as node from "pocketquery/node";
import * as web from "pocketquery/web";
import { PACKAGE, REFERENCE } from "./fixtures.js";

const CODE = [
  "ADAPTER_FORMAT", "ArtifactError", "ArtifactNotFoundError", "Bundle", "CorruptArtifactError",
  "ERROR_CLASSES", "Encoder", "FetchSource", "InvalidInputError", "LARGEST_RELEASE", "MemorySource",
  "MissingExtraError", "PocketQueryError", "RollbackError", "SignatureError", "SpaceMismatchError",
  "UnsupportedVersionError", "ZipSource", "keyId", "load", "openTokenizer", "parseAdapter",
  "readAdapter", "verify",
];

test("the built-in bundle is found by address and copied by a command, which leaves alone what is there", () => {
  const place = mkdtempSync(join(tmpdir(), "pocketquery-"));
  try {
    const { bin } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as { bin: Record<string, string> };
    const command = (...words: string[]) => spawnSync(process.execPath, [join(PACKAGE, bin["pocketquery-copy-default"]!), ...words], { encoding: "utf8" });
    const folder = join(place, "public", "encoder");
    assert.match(command(folder).stdout, /encoder: 5 files, \d+ bytes\n$/);
    const files = ["adapter.safetensors", "encoder.onnx", "golden.json", "manifest.json", "tokenizer.json"];
    assert.deepEqual(readdirSync(folder), files);
    for (const file of files) assert.equal(fileURLToPath(import.meta.resolve(`pocketquery/default/${file}`)), join(PACKAGE, "default", file));
    writeFileSync(join(folder, "golden.json"), "of another version");
    const written = (file: string): number => statSync(join(folder, file)).ino;
    const before = [written("encoder.onnx"), written("golden.json")];
    assert.equal(command(folder).status, 0);
    assert.deepEqual([written("encoder.onnx") === before[0], written("golden.json") === before[1]], [true, false]);
    assert.deepEqual(readFileSync(join(folder, "golden.json")), readFileSync(join(PACKAGE, "default", "golden.json")));
    assert.deepEqual([command().status, command("--help").status, command("a", "b").status], [2, 2, 2]);
    const refused = command(join(folder, "golden.json", "below"));
    assert.match(refused.stderr, /^pocketquery-copy-default: .*below cannot be written: .*; name a folder of yours\n$/);
    assert.equal(refused.status, 1);
  } finally {
    rmSync(place, { recursive: true });
  }
});

test("the public names", () => {
  const missing = (names: object): string[] => CODE.filter((name) => !(name in names));
  assert.deepEqual([missing(core), missing(node), missing(web)], [[], [], []]);
  assert.ok("FolderSource" in node && !("FolderSource" in web));
});

test("the packed files and their sizes", () => {
  const command = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const shown = execFileSync("npm", command, {
    cwd: PACKAGE,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [packed] = JSON.parse(shown) as [
    { size: number; unpackedSize: number; files: { path: string; size: number }[] },
  ];
  const strange = packed.files
    .map(({ path }) => path)
    .filter((path) => !/^dist\/[\w/.-]+\.(js|cjs|d\.ts)$|^dist\/words\/stemmers\/LICENSE$|^(README\.md|LICENSE|package\.json)$|^default\/\w+\.\w+$/.test(path));
  assert.deepEqual(strange, []);
  const bundle = packed.files.filter(({ path }) => path.startsWith("default/")).map(({ path }) => path);
  const code = packed.size - sum(bundle.map((path) => gzipSync(readFileSync(join(PACKAGE, path))).length));
  assert.ok(code < MOST_CODE, `${code} bytes packed beside the bundle`);
  for (const name of ["pocketquery.min.js", "pocketquery.worker.min.js"]) {
    const size = gzipSync(readFileSync(join(PACKAGE, "dist", name))).length;
    assert.ok(size < 53_500, `${name} has ${size} bytes, compressed`);
  }
  const search = gzipSync(readFileSync(join(PACKAGE, "dist", "pocketquery.search.worker.min.js"))).length;
  assert.ok(search < 99_000, `the worker with an index has ${search} bytes, compressed`);
});

test("no source imports itself, by whichever way round", () => {
  const root = join(PACKAGE, "src");
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts"));
  const imports = new Map(
    files.map((path) => {
      const named = readFileSync(join(root, path), "utf8").matchAll(/(?:from|import\() ?"(\.[^"]+)\.js"/g);
      return [path, [...named].map(([, target = ""]) => `${join(dirname(path), target)}.ts`)];
    }),
  );
  const finished = new Set<string>();
  const visit = (path: string, way: readonly string[]): void => {
    if (way.includes(path)) assert.fail(`${[...way, path].join(" imports ")}; move what both need below them`);
    if (finished.has(path)) return;
    for (const target of imports.get(path) ?? []) visit(target, [...way, path]);
    finished.add(path);
  };
  for (const path of files) visit(path, []);
  assert.ok(imports.get(join("tokenizer", "wordpiece.ts"))?.includes(join("tokenizer", "tokenizer.ts")));
});

function sum(sizes: readonly number[]): number {
  return sizes.reduce((all, size) => all + size, 0);
}

test("the built-in bundle is Python's, and opens without being named", async () => {
  const encoder = await node.load();
  const vector = await encoder.encodeQuery("how do I get a refund");
  assert.equal(vector.length, 384);
  await encoder.close();
  const report = await node.verify();
  assert.ok(report.golden.texts > 0);
  const mine = readFileSync(join(PACKAGE, "default", "manifest.json"));
  assert.deepEqual(mine, readFileSync(join(PACKAGE, "..", "default", "manifest.json")));
});

const MOST_CODE = 980_000; // bytes packed, beside the bundle: five builds, their types, one for `require`, and in two the languages

async function bundled(code: string): Promise<number> {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: PACKAGE },
    bundle: true,
    splitting: true,
    outdir: "unwritten",
    minify: true,
    format: "esm",
    write: false,
    external: ["onnxruntime-*", "react"],
    logLevel: "silent",
  });
  return outputFiles.find(({ path }) => path.endsWith("stdin.js"))?.contents.length ?? 0;
}

/** What is loaded at once, in one file: without what is imported when it is asked for. */
async function atOnce(code: string): Promise<Uint8Array> {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: PACKAGE },
    bundle: true,
    minify: true,
    format: "esm",
    write: false,
    logLevel: "silent",
    plugins: [{
      name: "later",
      setup: ({ onResolve }) => {
        onResolve({ filter: /./ }, ({ kind, path }) => (kind === "dynamic-import" ? { path, external: true } : undefined));
      },
    }],
  });
  return outputFiles[0]!.contents;
}

test("a bundler leaves out what is not used", async () => {
  const nothing = await bundled('import "pocketquery"');
  const one = await bundled('import { MemorySource } from "pocketquery"; console.log(MemorySource)');
  const all = await bundled('import { load } from "pocketquery/web"; console.log(load)');
  assert.ok(nothing < 100, `${nothing} bytes for nothing`);
  assert.ok(one < 3_000, `${one} bytes for one class`);
  const runtime = await bundled('import * as runtime from "pocketquery/runtime"; console.log(runtime)');
  assert.ok(runtime < 33_000, `${runtime} bytes for the runtime`);
  assert.ok(all - runtime < 90_000, `${all} bytes for the encoder, which loads the runtime where no other is given`);
  const learning = await bundled('import { trainLocally } from "pocketquery/training"; console.log(trainLocally)');
  assert.ok(learning > 15_000, `${learning} bytes for training, which the encoder does without`);
  assert.ok(learning < 80_000, `${learning} bytes for training`);
  const search = await atOnce('import { openIndex } from "pocketquery/index"; console.log(openIndex)');
  const [packed, gzipped] = [brotliCompressSync(search).length, gzipSync(search, { level: 9 }).length];
  assert.ok(packed < 33_000 && gzipped < 37_000, `${packed} bytes by Brotli, ${gzipped} by gzip, for an index to search`);
  const box = await bundled('import { useSearch } from "pocketquery/react"; console.log(useSearch)');
  assert.ok(box < 1_500, `${box} bytes for a search box, beside React and the index`);
  const store = await bundled('import { QueryStore } from "pocketquery/store"; console.log(QueryStore)');
  assert.ok(store < 20_000, `${store} bytes for the query store`);
});

test("everything but the entry for Node goes into a page", async () => {
  const entries = ["pocketquery", "pocketquery/web", "pocketquery/react-native", "pocketquery/worker", "pocketquery/search-worker", "pocketquery/runtime", "pocketquery/index", "pocketquery/training", "pocketquery/store", "pocketquery/releases", "pocketquery/gateway", "pocketquery/secure"];
  for (const entry of entries) {
    assert.ok((await bundled(`export * from "${entry}"`)) > 5_000, entry); // "node:fs" would be an error
  }
});

test("what comes of others is in files with its licence, and in private rounds alone", async () => {
  for (const [name, other] of [["chacha20", "ciphers"], ["hashes", "hashes"]]) {
    const file = readFileSync(join(PACKAGE, "dist", "secure", `${name}.js`), "utf8");
    const licence = `^/\\* @noble/${other}\n\nThe MIT License[^]+Copyright \\(c\\) 2022 Paul Miller[^]+THE SOFTWARE\\.`;
    assert.match(file, new RegExp(licence));
    assert.doesNotMatch(file, /from "@noble/);
  }
  const { dependencies = {} } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as { dependencies?: object };
  assert.deepEqual(dependencies, {});
  // With the classes of characters, 12 KB, which not every engine knows.
  const gateway = await bundled('import { Participation, Device } from "pocketquery/gateway"; console.log(Participation, Device)');
  const secure = await bundled('import { Participant } from "pocketquery/secure"; console.log(Participant)');
  assert.ok(gateway < 72_000, `${gateway} bytes for plain rounds`);
  assert.ok(secure < 75_000, `${secure} bytes for private rounds`);
});

test("onnxruntime reports on nobody", () => {
  const home = mkdtempSync(join(tmpdir(), "pocketquery-home-"));
  try {
    const code = `const { load } = await import(${JSON.stringify(join(PACKAGE, "dist", "node.js"))});
      const encoder = await load(); await encoder.encodeQuery("x"); await encoder.close();`;
    const { ORT_DISABLE_TELEMETRY: _, ...others } = process.env;
    const env = { ...others, HOME: home, XDG_CACHE_HOME: join(home, "cache") };
    execFileSync(process.execPath, ["--input-type=module", "-e", code], { env });
    assert.deepEqual(readdirSync(home), []); // where it keeps a device id
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});

test("the lock file names no mirror", () => {
  const lock = readFileSync(join(PACKAGE, "package-lock.json"), "utf8");
  const places = [...lock.matchAll(/"resolved": "([^"]*)"/g)].map((match) => match[1] ?? "");
  assert.deepEqual(places.filter((place) => !place.startsWith("https://registry.npmjs.org/")), []);
});

test("what the README's snippets import is there, and those that are not run say so", async () => {
  const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
  const { exports } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as {
    exports: Record<string, unknown>;
  };
  const page = readFileSync(join(PACKAGE, "..", "..", "docs", "how-to", "web.md"), "utf8");
  const found = [...`${readme}${page}`.matchAll(/^ *import \{([^}]+)\} from "pocketquery([^"]*)";/gm)];
  assert.ok(found.length > 10);
  for (const [, names = "", entry = ""] of found) {
    assert.ok(`.${entry}` in exports, `pocketquery${entry}`);
    const there = (await import(`pocketquery${entry}`)) as object;
    for (const name of names.split(",").map((one) => one.trim())) assert.ok(name in there, name);
  }
  for (const platform of ["Electron", "Capacitor"]) {
    assert.match(readme, new RegExp(`^\\*\\*${platform}[^*]*\\*\\* \\(not run here\\)`, "m"));
  }
});

test("installed alone it encodes in Node, too, without onnxruntime", () => {
  const place = mkdtempSync(join(tmpdir(), "pocketquery-"));
  try {
    const installed = join(place, "node_modules", "pocketquery");
    for (const part of ["dist", "default", "package.json"]) {
      cpSync(join(PACKAGE, part), join(installed, part), { recursive: true });
    }
    const script = join(place, "alone.mjs");
    writeFileSync(script, 'import { load } from "pocketquery/node"; console.log((await (await load()).encode("x")).length)');
    assert.equal(execFileSync(process.execPath, [script], { encoding: "utf8" }), "384\n");
    const broken = join(place, "node_modules", "onnxruntime-node");
    mkdirSync(broken);
    writeFileSync(join(broken, "package.json"), '{"name": "onnxruntime-node", "main": "nothing.js"}');
    const failed = spawnSync(process.execPath, [script], { encoding: "utf8" });
    assert.match(failed.stderr, /MissingExtraError: the package "onnxruntime-node" is there and cannot be loaded; install it again/);
  } finally {
    rmSync(place, { recursive: true });
  }
});

test("where no onnxruntime is given, the error names what to install, and what does without", async () => {
  const source = new core.MemorySource({});
  const { LocalStep } = await import("pocketquery/training");
  const message = /^no onnxruntime is given, expected the module of onnxruntime-web.*npm install onnxruntime-web; .*pocketquery\/runtime/;
  for (const options of [{}, { onnxruntime: undefined }, { onnxruntime: null }] as never[]) {
    for (const opening of [core.load(source, options), core.verify(source, options), LocalStep.open(source, options)]) {
      await assert.rejects(opening, { name: "MissingExtraError", message });
    }
  }
});

test("without import: require has the same names, with one class of each", () => {
  const { exports } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as {
    exports: Record<string, { node?: { require: string }; default: string }>;
  };
  const entries = Object.entries(exports).filter(([, { node }]) => node !== undefined);
  assert.deepEqual(entries.map(([entry]) => entry), [".", "./node", "./runtime", "./index", "./training", "./gateway", "./releases", "./store", "./react"]);
  const code = `(async () => {
    for (const entry of ${JSON.stringify(entries.map(([entry]) => `pocketquery${entry.slice(1)}`))}) {
      const names = (module) => Object.keys(module).filter((name) => name !== "default" && name !== "module.exports").sort().join();
      if (names(require(entry)) !== names(await import(entry))) throw new Error(entry);
    }
    const { InvalidInputError, load } = require("pocketquery/node");
    const { MemoryChanges, openIndex } = require("pocketquery/index");
    const encoder = await load();
    const index = await openIndex(null, { encoder, changes: new MemoryChanges() });
    await index.add([{ id: "a", text: "the sea" }, { id: "b", text: "how to get your money back" }]);
    console.log((await index.search("a refund"))[0].id);
    await index.search(7).catch((error) => console.log(error instanceof InvalidInputError));
    await encoder.close();
  })();`;
  const shown = execFileSync(process.execPath, ["--input-type=commonjs", "-e", code], { cwd: PACKAGE, encoding: "utf8" });
  assert.equal(shown, "b\ntrue\n");
});

test("the types are known to TypeScript before 5.7, too", () => {
  const typed = readdirSync(join(PACKAGE, "dist"), { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".d.ts"));
  assert.ok(typed.length > 100);
  for (const name of typed) assert.doesNotMatch(readFileSync(join(PACKAGE, "dist", name), "utf8"), /Array<ArrayBuffer/, name);
});

test("what React Native and workers bundle neither asks where it lies nor imports an address", () => {
  const reached = (file: string, seen = new Set<string>()): Set<string> => {
    if (seen.has(file)) return seen;
    seen.add(file);
    const code = readFileSync(file, "utf8");
    for (const [, next = ""] of code.matchAll(/(?:from|import) "(\.[^"]+)"/g)) reached(join(dirname(file), next), seen);
    return seen;
  };
  const entries = ["main", "index/index", "store", "training", "gateway", "releases", "secure/secure", "runtime/runtime", "react_native/react_native"];
  for (const entry of entries) {
    for (const file of reached(join(PACKAGE, "dist", `${entry}.js`))) {
      assert.doesNotMatch(readFileSync(file, "utf8").replace(/\/\*[^]*?\*\//g, ""), /import\.meta|\bimport\((?!"\.)/, file);
    }
  }
  for (const name of ["worker", "search.worker"]) {
    const code = readFileSync(join(PACKAGE, "dist", `pocketquery.${name}.min.js`), "utf8");
    assert.doesNotMatch(code, /import\.meta/);
    const imports = [...code.matchAll(/\bimport\(([^)]*)\)/g)].map((match) => match[1] ?? "");
    assert.equal(imports.length, 1);
    for (const hint of ["webpackIgnore: true", "turbopackIgnore: true", "@vite-ignore"]) assert.ok(imports[0]?.includes(hint), hint);
  }
});

test("the README's snippet for Node runs", () => {
  const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
  const code = /```js node\n([\s\S]*?)```/.exec(readme)?.[1] ?? assert.fail("no snippet");
  const script = join(PACKAGE, ".test", "readme.mjs"); // inside, so that the package finds itself
  writeFileSync(script, code);
  try {
    const options = { cwd: dirname(REFERENCE), encoding: "utf8" } as const;
    const shown = execFileSync(process.execPath, [script], options);
    assert.match(shown, /^\d+ space-c908b0599cb71548933014c3f35124fc 384\n$/);
  } finally {
    rmSync(script);
  }
});
