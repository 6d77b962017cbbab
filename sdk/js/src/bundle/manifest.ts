/**
 * `manifest.json`: what a bundle is, which space it lives in, and the hash of every file.
 *
 * A manifest is data from elsewhere: every field is checked, and a message names the field, what was
 * found and what was expected. Every size and number has a bound, far above what an encoder needs
 * and far below what would hurt a device. Fields this release does not know are ignored, a newer
 * `format_version` is refused.
 */

import { CorruptArtifactError, UnsupportedVersionError } from "../errors.js";
import { Fields } from "../fields.js";
import { type Json, plain } from "../json.js";
import { byCodePoint, characterCount, isPrintable, repr, shortened, show } from "../python_text.js";
import { SIGNATURE_FILE } from "./signature_file.js";

export const FORMAT = "pocketquery-bundle";
export const FORMAT_VERSION = 1;
export const MANIFEST_FILE = "manifest.json";
export const ENCODER_FILE = "encoder.onnx";
export const GOLDEN_FILE = "golden.json";
export const ADAPTER_FILE = "adapter.safetensors";
export const TRAINING_STEP_FILE = "train_step.onnx";
export const TRAINING_STATE_FILE = "train_state.safetensors";

export const MOST_MANIFEST_BYTES = 1 << 20; // an honest one has a few thousand
export const MOST_IDS = 1 << 15; // of a text
export const MOST_DIMENSIONS = 1 << 14;
const MOST_FILES = 64;
const MOST_BYTES = 2 ** 31 - 1; // of a file; protobuf, which ONNX is, holds no more
const MOST_OF_FILE: ReadonlyMap<string, number> = new Map([
  [GOLDEN_FILE, 1 << 24], // an honest one: .2 MB
  [ADAPTER_FILE, 1 << 26], // .1 MB
]);
const MOST_OF_TOKENIZER = 1 << 26; // bytes; the largest vocabularies in use take 20 MB
const MOST_CHARACTERS = 1024; // of a name, a version, an id, a licence
const MOST_PROMPTS = 64;
const MOST_PROMPT = 1 << 14; // characters
const MOST_FILE_NAME = 128; // characters
const MOST_LANGUAGES = 1 << 9;
const LANGUAGE = /^[a-z]{2,3}(-[A-Za-z0-9]{1,8}){0,3}$/;

const KINDS = ["wordpiece", "sentencepiece"] as const;
const LAYOUTS = ["xlm-roberta", "plain"] as const;

/** Which tokenizer, in which file; `options` are the entry's further fields. */
export interface TokenizerSpec {
  readonly kind: (typeof KINDS)[number];
  readonly file: string;
  readonly options: ReadonlyMap<string, Json>;
}

/** The SHA-256 (hexadecimal) and the size in bytes of one file. */
export interface FileEntry {
  readonly sha256: string;
  readonly bytes: number;
}

/** The content of `manifest.json`. */
export interface Manifest {
  readonly name: string;
  readonly encoderVersion: string;
  readonly parentVersion: string | null;
  /** The vector space of the teacher. */
  readonly space: { readonly id: string; readonly dimension: number };
  readonly prompts: ReadonlyMap<string, string>;
  readonly defaultPromptName: string | null;
  /** Token ids of a text at most, special ones included. */
  readonly maxLength: number;
  /** Codes of the languages that it was made for ("en", "pt-BR"); none where nobody says. */
  readonly languages: readonly string[];
  readonly tokenizer: TokenizerSpec;
  readonly files: ReadonlyMap<string, FileEntry>;
  /** The exporter's report, as plain JSON. */
  readonly quality: unknown;
  readonly license: string;
  /** Who it says signed it; whether so is known only where a key was given. */
  readonly signatureKeyId: string | null;
}

/**
 * The manifest in `data`, the bytes of `manifest.json`.
 *
 * Throws CorruptArtifactError (not JSON, above 1 MiB, of another format, or a field is not as
 * described) or UnsupportedVersionError (written in a newer format version).
 */
export function parseManifest(data: Uint8Array): Manifest {
  const fields = Fields.ofJson(data, MANIFEST_FILE, MOST_MANIFEST_BYTES);
  checkFormat(fields);
  const space = fields.child("space");
  const manifest: Manifest = {
    name: fields.text("name", MOST_CHARACTERS),
    encoderVersion: fields.text("encoder_version", MOST_CHARACTERS),
    parentVersion: fields.textOrNull("parent_version", MOST_CHARACTERS),
    space: { id: space.text("id", MOST_CHARACTERS), dimension: space.integer("dimension") },
    prompts: fields.texts("prompts", MOST_PROMPTS, MOST_PROMPT),
    defaultPromptName: fields.textOrNull("default_prompt_name", MOST_CHARACTERS),
    maxLength: fields.integer("max_length"),
    languages: fields.names().includes("languages") ? languagesOf(fields.sequence("languages", MOST_LANGUAGES)) : [],
    tokenizer: tokenizerSpec(fields.child("tokenizer")),
    files: fileEntries(fields.child("files", MOST_FILES)),
    quality: plain(fields.mapping("quality")),
    license: fields.text("license", MOST_CHARACTERS),
    signatureKeyId: fields.textOrNull("signature_key_id", MOST_CHARACTERS),
  };
  check(manifest);
  return manifest;
}

function checkFormat(fields: Fields): void {
  const found = fields.text("format", MOST_CHARACTERS);
  if (found !== FORMAT) throw wrong("format", repr(found), repr(FORMAT));
  const version = fields.integer("format_version");
  if (version > FORMAT_VERSION) {
    throw new UnsupportedVersionError(
      `${MANIFEST_FILE}: format_version is ${version}, this release reads up to ` +
        `${FORMAT_VERSION}; update pocketquery`,
    );
  }
  if (version < 1) {
    throw wrong("format_version", String(version), `an integer from 1 to ${FORMAT_VERSION}`);
  }
}

function tokenizerSpec(fields: Fields): TokenizerSpec {
  const kind = fields.choice("kind", KINDS);
  const options = new Map<string, Json>();
  for (const [key, value] of fields.entries()) {
    if (key !== "kind" && key !== "file") options.set(key, value);
  }
  if (kind === "sentencepiece") options.set("layout", fields.choice("layout", LAYOUTS));
  return { kind, file: fields.text("file", MOST_FILE_NAME), options };
}

function languagesOf(listed: readonly Json[]): string[] {
  return listed.map((language) => {
    if (typeof language === "string" && LANGUAGE.test(language)) return language;
    throw wrong("languages", shortened(show(plain(language))), 'codes as of BCP 47: "en", "pt-BR"');
  });
}

function fileEntries(fields: Fields): Map<string, FileEntry> {
  const entries = new Map<string, FileEntry>();
  for (const name of fields.names()) {
    const entry = fields.child(name);
    entries.set(name, { sha256: entry.text("sha256"), bytes: entry.integer("bytes") });
  }
  return entries;
}

/** What ties fields together. */
function check(manifest: Manifest): void {
  const { files, tokenizer, prompts, defaultPromptName, space, maxLength } = manifest;
  for (const [name, entry] of files) checkFile(name, entry, tokenizer.file);
  for (const name of [ENCODER_FILE, GOLDEN_FILE, tokenizer.file]) {
    if (!files.has(name)) throw wrong("files", `no entry ${repr(name)}`, "an entry for it");
  }
  if (defaultPromptName !== null && !prompts.has(defaultPromptName)) {
    const known = shortened(show([...prompts.keys()].sort(byCodePoint)));
    throw wrong("default_prompt_name", repr(defaultPromptName), `null or one of ${known}`);
  }
  if (space.dimension < 1 || space.dimension > MOST_DIMENSIONS) {
    const expected = `an integer above 0, at most ${MOST_DIMENSIONS}`;
    throw wrong("space.dimension", String(space.dimension), expected);
  }
  if (maxLength < 3 || maxLength > MOST_IDS) {
    const expected = `at least 3 (two special tokens and one of the text), at most ${MOST_IDS}`;
    throw wrong("max_length", String(maxLength), expected);
  }
}

function checkFile(name: string, entry: FileEntry, tokenizer: string): void {
  // One flat folder: a name that could leave it, hide in it or shadow the manifest is refused.
  if (
    name === "" ||
    characterCount(name) > MOST_FILE_NAME ||
    name.startsWith(".") ||
    /[/\\:]/.test(name) ||
    !isPrintable(name) ||
    name === MANIFEST_FILE ||
    name === SIGNATURE_FILE
  ) {
    const expected = "plain file names inside the bundle's folder";
    throw wrong("files", `the name ${repr(shortened(name))}`, expected);
  }
  if (!/^[0-9a-f]{64}$/.test(entry.sha256)) {
    const found = repr(shortened(entry.sha256));
    throw wrong(`files.${name}.sha256`, found, "64 lowercase hexadecimal digits");
  }
  const most = name === tokenizer ? MOST_OF_TOKENIZER : (MOST_OF_FILE.get(name) ?? MOST_BYTES);
  if (entry.bytes < 0 || entry.bytes > most) {
    const expected = `an integer not below 0, at most ${most}`;
    throw wrong(`files.${name}.bytes`, String(entry.bytes), expected);
  }
}

function wrong(name: string, found: string, expected: string): CorruptArtifactError {
  return new CorruptArtifactError(
    `${MANIFEST_FILE}: field ${repr(name)}: found ${found}, expected ${expected}`,
  );
}
