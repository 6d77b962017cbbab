/** Hermes, which runs React Native's apps, and QuickJS: engines that have nothing but JavaScript. */

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type PluginItem, transformSync } from "@babel/core";
import { build } from "esbuild";
import { getQuickJS } from "quickjs-emscripten";
import { PACKAGE } from "../fixtures.js";

/** What Metro's preset for Hermes does by Babel: Hermes 0.12 has no classes, nor async arrows. */
const PLUGINS: PluginItem[] = [
  "class-static-block", "class-properties", "private-methods", "classes", "block-scoping", "destructuring",
  "async-generator-functions", "async-to-generator", "named-capturing-groups-regex",
].map((name) => [`@babel/plugin-transform-${name}`, name === "destructuring" ? { useBuiltIns: true } : {}]);

/** A compiled test of this folder with the package, as one script. */
export async function bundled(name: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(PACKAGE, ".test", "engines", name)],
    bundle: true,
    format: "iife",
    target: "es2022",
    write: false,
    external: ["onnxruntime-*", "node:*"],
    logLevel: "error",
  });
  const options = { plugins: PLUGINS, configFile: false, babelrc: false, compact: false, cwd: PACKAGE } as const;
  return transformSync(outputFiles[0]!.text, options)!.code!;
}

/** An engine's own program, which must be there: a test that is passed over would say nothing. */
function hermes(program: "hermes" | "hermesc"): string {
  const folder = { linux: "linux64-bin", darwin: "osx-bin", win32: "win64-bin" }[process.platform as "linux"];
  return join(dirname(createRequire(import.meta.url).resolve("hermes-engine-cli/package.json")), folder, program);
}

/** What the script prints, which is compiled first, as an app's is: `compiler` is a hermesc of bytecode version 89. */
export function inHermes(code: string, compiler = hermes("hermesc")): string {
  const folder = mkdtempSync(join(tmpdir(), "pocketquery-hermes-"));
  try {
    const [file, bytecode] = [join(folder, "main.js"), join(folder, "main.hbc")];
    writeFileSync(file, code);
    const commands: [string, string[]][] = [
      [compiler, ["-O", "-w", "-emit-binary", "-out", bytecode, file]],
      [hermes("hermes"), ["-b", bytecode]],
    ];
    let said = "";
    for (const [program, options] of commands) {
      const { stdout, stderr, error } = spawnSync(program, options, { encoding: "utf8", maxBuffer: 1 << 26 });
      if (error) throw error;
      said += `${stdout}${stderr}`;
    }
    return said;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** What the script prints. */
export async function inQuickJs(code: string): Promise<string> {
  const context = (await getQuickJS()).newContext();
  const lines: string[] = [];
  const print = context.newFunction("print", (line) => void lines.push(context.getString(line)));
  context.setProp(context.global, "print", print);
  print.dispose();
  context.unwrapResult(context.evalCode(code)).dispose();
  context.unwrapResult(context.runtime.executePendingJobs());
  return lines.join("\n");
}

/** A script that finds `data` as the global DATA. */
export function withData(data: string, code: string): string {
  return `globalThis.DATA = ${JSON.stringify(data)};\n${code}`;
}

/** A file in base 64. */
export function packedFile(...path: string[]): string {
  return readFileSync(join(...path), "base64");
}
