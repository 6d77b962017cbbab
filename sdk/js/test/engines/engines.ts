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

/** A test of this folder with the package, as one script; compiled before, where it is in TypeScript. */
export async function bundled(name: string, folder = ".test"): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(PACKAGE, folder, "engines", name)],
    bundle: true,
    format: "iife",
    target: "es2022",
    write: false,
    external: ["onnxruntime-*", "node:*"],
    logLevel: "error",
  });
  const options = { plugins: PLUGINS, configFile: false, babelrc: false, compact: false, cwd: PACKAGE } as const;
  const code = outputFiles[0]!.text.replace(/\bimport\("node:[^"]+"\)/g, "Promise.reject()"); // Hermes does not parse it
  return transformSync(code, options)!.code!;
}

/** An engine's own program, which must be there: a test that is passed over would say nothing. */
export function hermes(program: "hermes" | "hermesc"): string {
  const folder = { linux: "linux64-bin", darwin: "osx-bin", win32: "win64-bin" }[process.platform as "linux"];
  return join(dirname(createRequire(import.meta.url).resolve("hermes-engine-cli/package.json")), folder, program);
}

/** Runs a script that finds `data` as the global DATA; gives what it prints. */
export type Engine = (code: string, data: string) => string | Promise<string>;

/** As an app is run: compiled to bytecode first. */
export const inHermes: Engine = (code, data) => {
  const folder = mkdtempSync(join(tmpdir(), "pocketquery-hermes-"));
  try {
    const [file, bytecode] = [join(folder, "main.js"), join(folder, "main.hbc")];
    writeFileSync(file, `globalThis.DATA = ${JSON.stringify(data)};\n${code}`);
    const commands = [["hermesc", "-O", "-w", "-emit-binary", "-out", bytecode, file], ["hermes", "-b", bytecode]] as const;
    let said = "";
    for (const [program, ...options] of commands) {
      const { stdout, stderr, error } = spawnSync(hermes(program), options, { encoding: "utf8", maxBuffer: 1 << 26 });
      if (error) throw error;
      said += `${stdout}${stderr}`;
    }
    return said;
  } finally {
    rmSync(folder, { recursive: true });
  }
};

export const inQuickJs: Engine = async (code, data) => {
  const context = (await getQuickJS()).newContext();
  const lines: string[] = [];
  const globals = { print: context.newFunction("print", (line) => void lines.push(context.getString(line))), DATA: context.newString(data) };
  for (const [name, value] of Object.entries(globals)) {
    context.setProp(context.global, name, value);
    value.dispose();
  }
  context.unwrapResult(context.evalCode(code)).dispose();
  context.unwrapResult(context.runtime.executePendingJobs());
  return lines.join("\n");
};

/** A file in base 64. */
export function packedFile(...path: string[]): string {
  return readFileSync(join(...path), "base64");
}
