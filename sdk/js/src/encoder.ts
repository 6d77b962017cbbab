/**
 * The query encoder: text in, vector out, in the space of the documents' teacher.
 *
 * Its adapter can be swapped while calls are under way. What a call encodes with is one object, which
 * a swap replaces by one assignment and a call takes once: so each call sees the old adapter or the
 * new one, and the old session goes when the last call with it is over.
 */

import { type AdapterRelease, checkFits, readAdapter } from "./bundle/adapter.js";
import { adapterOf, type AdapterTensors, checkedTensors } from "./bundle/adapter_tensors.js";
import type { Bundle } from "./bundle/bundle.js";
import { CorruptArtifactError, InvalidInputError, SignatureError } from "./errors.js";
import { type Graph, GraphModel, type OnnxRuntime, type SessionOptions } from "./graph.js";
import { ADAPTER_FILE, ENCODER_FILE, type Manifest } from "./bundle/manifest.js";
import { pairwiseSum } from "./index/vectors/numbers.js";
import { byCodePoint, kindOf, repr } from "./python_text.js";
import { parseSafetensors } from "./bundle/safetensors.js";
import { type Key, rawKey } from "./bundle/signature.js";
import { hasUnreadLetters } from "./words/scripts.js";
import { checkCount, checkOptions, checkText, checkTexts, type Names } from "./texts.js";
import { openTokenizer } from "./tokenizer/open_tokenizer.js";
import type { Tokenizer } from "./tokenizer/tokenizer.js";

/** A release, by its bytes or as `TrustedReleases` gave it; or tensors by name. */
export type AdapterSource = Uint8Array | AdapterRelease | AdapterTensors;

/** How texts are encoded. */
export interface EncodeOptions {
  /** Which of the manifest's prompts to put before each text; its default where none is named. */
  readonly promptName?: string | undefined;
  /** A prompt itself; wins over `promptName`. */
  readonly prompt?: string | undefined;
  /** Keep the first so many dimensions. */
  readonly truncateDim?: number | undefined;
  /** Whether a truncated vector is normalised again; a whole one is in either case. */
  readonly normalize?: boolean | undefined;
  /** Ends the call with its reason, before a text or between two of a list. */
  readonly signal?: AbortSignal | undefined;
  /** Told after each text of a list how many are encoded, of how many. */
  readonly onProgress?: ((done: number, texts: number) => void) | undefined;
  /** Awaited before each text of a list, and with `pocketquery/runtime` within long ones: what is to go first. */
  readonly between?: (() => Promise<void>) | undefined;
}

const ENCODE_OPTIONS: Names<EncodeOptions> = {
  promptName: true,
  prompt: true,
  truncateDim: true,
  normalize: true,
  signal: true,
  onProgress: true,
  between: true,
};

/** What an encoder needs beside its bundle. */
export interface EncoderOptions {
  readonly onnxruntime: OnnxRuntime;
  /** A newer adapter than the bundle's own. */
  readonly adapter?: AdapterSource | undefined;
  /** Where given, the adapter must be signed by its private half. */
  readonly publicKey?: Key | undefined;
  /** False skips the SHA-256 of each file; its size is checked in any case. */
  readonly verifyHashes?: boolean | undefined;
  readonly sessionOptions?: SessionOptions | undefined;
}

interface Chosen {
  readonly tensors: AdapterTensors;
  readonly version: string;
}

const QUERY = "query";
const DOCUMENT = "document";
/** As in Python, null is the default. */
const isUnset = (value: unknown): value is null | undefined => value === null || value === undefined;
const LEAST_NORM = Math.fround(1e-12); // torch.nn.functional.normalize's

/** What calls encode with, and how many of them still do. */
class Serving {
  readonly graph: Graph;
  readonly version: string;
  #calls = 0;
  #retired = false;

  constructor(graph: Graph, version: string) {
    this.graph = graph;
    this.version = version;
  }

  async use<T>(work: (graph: Graph) => Promise<T>): Promise<T> {
    this.#calls++;
    try {
      return await work(this.graph);
    } finally {
      this.#calls--;
      if (this.#retired && this.#calls === 0) await this.graph.release();
    }
  }

  /** Release the session as soon as nobody uses it. */
  async retire(): Promise<void> {
    if (this.#retired) return;
    this.#retired = true;
    if (this.#calls === 0) await this.graph.release();
  }
}

/** A loaded query encoder; made by `load`. */
export class Encoder {
  /** The whole manifest of the bundle. */
  readonly manifest: Manifest;
  /** The id of the key the bundle's signature was checked with; null where no key was given. */
  readonly signedBy: string | null;
  readonly #tokenizer: Tokenizer;
  readonly #model: GraphModel;
  readonly #ownAdapter: AdapterTensors;
  readonly #publicKey: Uint8Array | undefined;
  #serving: Serving | null;
  #swapping: Promise<unknown> = Promise.resolve();

  private constructor(
    bundle: Bundle,
    tokenizer: Tokenizer,
    model: GraphModel,
    ownAdapter: AdapterTensors,
    serving: Serving,
    publicKey: Uint8Array | undefined,
  ) {
    this.manifest = bundle.manifest;
    this.signedBy = bundle.signedBy;
    this.#tokenizer = tokenizer;
    this.#model = model;
    this.#ownAdapter = ownAdapter;
    this.#serving = serving;
    this.#publicKey = publicKey;
  }

  /** The encoder in `bundle`. Errors as `load`'s. */
  static async ofBundle(bundle: Bundle, options: EncoderOptions): Promise<Encoder> {
    const { manifest } = bundle;
    const { tokenizer: spec, maxLength, space } = manifest;
    const { adapter, onnxruntime, sessionOptions } = options;
    const read = { verifyHash: options.verifyHashes ?? true };
    const publicKey = options.publicKey === undefined ? undefined : rawKey(options.publicKey);
    const source = bundle.source.name;
    const own: AdapterTensors = bundle.has(ADAPTER_FILE)
      ? adapterOf(parseSafetensors(await bundle.read(ADAPTER_FILE, read), ADAPTER_FILE), source)
      : new Map();
    const chosen =
      adapter === undefined
        ? { tensors: own, version: manifest.encoderVersion }
        : await resolved(adapter, manifest, publicKey);
    const tokenizer = openTokenizer(
      spec.kind,
      await bundle.read(spec.file, read),
      maxLength,
      spec.options,
    );
    const settings = { onnxruntime, dimension: space.dimension, source, sessionOptions };
    const model = new GraphModel(await bundle.read(ENCODER_FILE, read), settings);
    if (adapter !== undefined) checkComplete(chosen, model, manifest);
    const serving = new Serving(await model.open(chosen.tensors), chosen.version);
    return new Encoder(bundle, tokenizer, model, own, serving, publicKey);
  }

  /** The bundle's name. */
  get name(): string {
    return this.manifest.name;
  }

  /**
   * The encoder's version within its space: the adapter's, where one was given; with tensors that
   * are no release, the bundle's followed by "+local".
   */
  get version(): string {
    return this.#open().version;
  }

  /** Copies of the adapter's tensors, by name; empty where the bundle brings no adapter. */
  get adapter(): Map<string, { shape: readonly number[]; data: Float32Array }> {
    const copies = new Map<string, { shape: readonly number[]; data: Float32Array }>();
    for (const [name, { shape, data }] of this.#open().graph.adapter) {
      copies.set(name, { shape, data: data.slice() });
    }
    return copies;
  }

  /** The id of the vector space; an index must carry the same. */
  get spaceId(): string {
    return this.manifest.space.id;
  }

  /** The number of dimensions of a vector. */
  get dimension(): number {
    return this.manifest.space.dimension;
  }

  /** The most token ids of a text, special tokens included; what is beyond is cut off. */
  get maxLength(): number {
    return this.manifest.maxLength;
  }

  /** The codes of the languages that it was made for; none where its bundle does not say. */
  get languages(): readonly string[] {
    return this.manifest.languages;
  }

  /**
   * Whether the vector of `text` says anything: a hybrid search goes by words alone where it does not.
   *
   * It does not read a text where a quarter of the letters are in words of scripts that its languages are not
   * written in, or more than half of the tokens are unknown to it, or there are none. Languages that share a script
   * are not told apart.
   */
  reads(text: string): boolean {
    if (this.languages.length > 0 && hasUnreadLetters(checkText(text), this.languages)) return false;
    const ids = this.tokenize(text);
    const tokens = ids.length - this.#tokenizer.encode("").length;
    const unknown = ids.filter((id) => id === this.#tokenizer.unknownId).length;
    return tokens > 0 && 2 * unknown <= tokens;
  }

  /**
   * Encode one text or a list of them: a vector of `dimension` numbers for each, L2-normalised.
   *
   * Each text goes through the graph alone and unpadded, so a vector does not depend on its company.
   * An empty or blank text gives the vector of the special tokens alone; a text longer than
   * `maxLength` ids is cut off.
   *
   * Throws InvalidInputError: not a text (names the index in the list), a lone surrogate (names its
   * position), an unknown prompt, a number out of range, or an encoder that was closed.
   */
  encode(text: string, options?: EncodeOptions): Promise<Float32Array>;
  encode(texts: readonly string[], options?: EncodeOptions): Promise<Float32Array[]>;
  async encode(
    sentences: string | readonly string[],
    options: EncodeOptions = {},
  ): Promise<Float32Array | Float32Array[]> {
    const { signal, onProgress, between } = checkOptions(options, ENCODE_OPTIONS);
    const dimension = this.#checkedDimension(options.truncateDim);
    const before = this.#prompt(options);
    const single = typeof sentences === "string";
    const texts = single ? [checkText(sentences)] : checkTexts(sentences);
    // Once: every text of a call goes through the same adapter.
    const vectors = await this.#open().use(async (graph) => {
      const found: Float32Array[] = [];
      for (const text of texts) {
        if (!single) await between?.();
        // A search's one text goes before the many of an addition.
        found.push(await graph.embed(this.#tokenizer.encode(before + text), single, signal, between));
        if (!single) onProgress?.(found.length, texts.length);
      }
      return found;
    });
    const cut =
      options.truncateDim === undefined
        ? vectors
        : vectors.map((vector) => truncated(vector, dimension, options.normalize ?? true));
    return single ? (cut[0] as Float32Array) : cut;
  }

  /** As `encode`, with the manifest's prompt "query" unless another is asked for. */
  encodeQuery(text: string, options?: EncodeOptions): Promise<Float32Array>;
  encodeQuery(texts: readonly string[], options?: EncodeOptions): Promise<Float32Array[]>;
  async encodeQuery(
    sentences: string | readonly string[],
    options: EncodeOptions = {},
  ): Promise<Float32Array | Float32Array[]> {
    return this.encode(sentences as string, this.#prompted(QUERY, options));
  }

  /**
   * As `encode`, with the manifest's prompt "document" where it has one and no other is asked for. For a
   * device that indexes its own texts: the encoder is made for queries, and documents that the heavy
   * encoder encoded are found more often.
   */
  encodeDocument(text: string, options?: EncodeOptions): Promise<Float32Array>;
  encodeDocument(texts: readonly string[], options?: EncodeOptions): Promise<Float32Array[]>;
  async encodeDocument(
    sentences: string | readonly string[],
    options: EncodeOptions = {},
  ): Promise<Float32Array | Float32Array[]> {
    return this.encode(sentences as string, this.#prompted(DOCUMENT, options));
  }

  /** The token ids of `text`, special tokens included, at most `maxLength`; no prompt. */
  tokenize(text: string): number[] {
    return this.#tokenizer.encode(checkText(text));
  }

  /**
   * Encode with another adapter from now on; what is being encoded ends with the old one. Vectors are
   * then equal, to the bit, to those of a bundle loaded with that adapter. For the moment of the
   * change two sessions are in memory. After an error the adapter is the one it was.
   *
   * `adapter`: a release, by its bytes or as `TrustedReleases` gave it; tensors by name (memory of one's own carries no signature, so
   * none is looked for); or null for the bundle's own. `publicKey`: where given, the release must be
   * signed by its private half; without it, the key the bundle was loaded with, if any, counts.
   *
   * Throws CorruptArtifactError, UnsupportedVersionError, SpaceMismatchError or SignatureError.
   */
  swapAdapter(
    adapter: AdapterSource | null,
    options: { readonly publicKey?: Key | undefined } = {},
  ): Promise<void> {
    // One swap at a time; encoding knows nothing of it.
    const swap = this.#swapping.then(() => {
      return this.#swap(adapter, checkOptions(options, { publicKey: true }).publicKey);
    });
    this.#swapping = swap.catch(() => undefined);
    return swap;
  }

  /** Ends the session; calls under way are finished, later ones throw InvalidInputError. */
  async close(): Promise<void> {
    await this.#swapping;
    const serving = this.#serving;
    this.#serving = null;
    await serving?.retire();
  }

  async #swap(adapter: AdapterSource | null, publicKey: Key | undefined): Promise<void> {
    this.#open();
    let chosen: Chosen = { tensors: this.#ownAdapter, version: this.manifest.encoderVersion };
    if (adapter !== null) {
      chosen = await resolved(adapter, this.manifest, publicKey ?? this.#publicKey);
      checkComplete(chosen, this.#model, this.manifest);
    }
    const graph = await this.#model.open(chosen.tensors);
    const old = this.#open();
    this.#serving = new Serving(graph, chosen.version);
    await old.retire();
  }

  #open(): Serving {
    if (this.#serving === null) {
      throw new InvalidInputError(`the encoder ${repr(this.name)} was closed; load it again`);
    }
    return this.#serving;
  }

  #prompted(name: string, options: EncodeOptions): EncodeOptions {
    const { prompt, promptName } = checkOptions(options);
    const isOwn = isUnset(prompt) && isUnset(promptName) && this.manifest.prompts.has(name);
    return isOwn ? { ...options, promptName: name } : options;
  }

  #prompt({ prompt, promptName }: EncodeOptions): string {
    if (!isUnset(prompt)) return checkText(prompt, "the prompt");
    const { prompts, defaultPromptName } = this.manifest;
    const name = promptName ?? defaultPromptName;
    if (name === null) return "";
    const found = prompts.get(name);
    if (found === undefined) {
      const known = [...prompts.keys()].sort(byCodePoint).map(repr).join(", ") || "none";
      throw new InvalidInputError(
        `promptName is ${typeof name === "string" ? repr(name) : kindOf(name)}, the bundle ` +
          `${repr(this.name)} knows: ${known}; pass one of them, or the prompt itself as prompt`,
      );
    }
    return found;
  }

  #checkedDimension(truncateDim: number | undefined): number {
    if (truncateDim === undefined) return this.dimension;
    return checkCount(truncateDim, "truncateDim", this.dimension);
  }
}

async function resolved(
  adapter: AdapterSource,
  manifest: Manifest,
  publicKey: Key | undefined,
): Promise<Chosen> {
  if (adapter instanceof Uint8Array) {
    const release = await readAdapter(adapter, manifest, publicKey);
    return { tensors: release.tensors, version: release.version };
  }
  if (adapter instanceof Map) {
    const tensors = checkedTensors(adapter, "the adapter");
    return { tensors, version: `${manifest.encoderVersion}+local` };
  }
  if (isRelease(adapter)) {
    const name = `release ${adapter.version}`;
    checkFits(adapter, manifest, name);
    if (publicKey !== undefined && adapter.signedBy === null) {
      throw new SignatureError(
        `${name}: read without a key, expected one whose signature was checked, as the bundle's was; ` +
          "read it with that key",
      );
    }
    return { tensors: checkedTensors(adapter.tensors, name), version: adapter.version };
  }
  throw new InvalidInputError(
    `adapter is ${kindOf(adapter)}, expected a release's bytes, or a Map of tensors by name`,
  );
}

function isRelease(adapter: AdapterSource): adapter is AdapterRelease {
  return (adapter as Partial<AdapterRelease> | null)?.tensors instanceof Map;
}

function checkComplete(adapter: Chosen, model: GraphModel, manifest: Manifest): void {
  const missing = model.adapterNames.filter((name) => !adapter.tensors.has(name));
  if (missing.length > 0) {
    // The graph's defaults would take their place, which belong to another training.
    throw new CorruptArtifactError(
      `the adapter, version ${adapter.version}, lacks the tensors ${missing.join(", ")}; the ` +
        `encoder of the bundle ${repr(manifest.name)} expects all of them`,
    );
  }
}

function truncated(vector: Float32Array, dimension: number, normalize: boolean): Float32Array {
  const cut = vector.slice(0, dimension);
  if (!normalize) return cut;
  // In float32 and in numpy's order: the same bits as in Python.
  const norm = Math.fround(Math.sqrt(pairwiseSum(cut.map((value) => value * value), Math.fround)));
  return cut.map((value) => value / Math.max(norm, LEAST_NORM));
}
