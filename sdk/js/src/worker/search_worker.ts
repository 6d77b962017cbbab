/**
 * Encoder and index in a Web Worker: one call across the border for a search, and neither opening a
 * large index nor searching it holds up the page. The page makes the worker;
 * `pocketquery/search-worker-script` is one that is ready.
 */

import { throwIfAborted } from "../platform/cancelling.js";
import type { Key } from "../bundle/signature.js";
import type { Encoder } from "../encoder.js";
import { InvalidInputError } from "../errors.js";
import { openSent, type Sendable, sendable } from "../files/place.js";
import type { Progress } from "../files/source.js";
import {
  absentPhrases,
  type AddOptions,
  type Document,
  type FacetCount,
  type FacetOptions,
  facets,
  type Hit,
  type Index,
  IndexedDbChanges,
  MemoryChanges,
  type NewDocument,
  openWith,
  type SearchOptions,
  type Snippet,
  snippet,
  type SnippetOptions,
  type SnippetSource,
  type VectorLike,
} from "../index/index.js";
import type { Check } from "../index/folder.js";
import { answer, Caller, type Context, type Methods, type Port } from "../rpc.js";
import { checkOptions, type Names } from "../texts.js";
import { loadProgram, type LoadProgram } from "../words/languages.js";
import { encoderMethods, type Runtime, WorkerEncoder } from "./worker.js";

export { WorkerEncoder, type WorkerLoadOptions } from "./worker.js";

/** What a worker opens: everything in it can be sent to another thread. */
export interface WorkerIndexOptions {
  /** The index's address, or each file's, or its files; null begins an index on the device, which `changes` keeps. */
  readonly index: Sendable | null;
  /** An encoder in the same worker, or a promise of it, for searches by meaning and documents without vectors. */
  readonly encoder?: WorkerEncoder | Promise<WorkerEncoder> | undefined;
  /** The name of the IndexedDB database that keeps changes; "" keeps them in memory. Absent: for reading only. */
  readonly changes?: string | undefined;
  readonly deltas?: readonly Uint8Array[] | undefined;
  /** As `openIndex` takes it. */
  readonly language?: string | undefined;
  readonly check?: Check | undefined;
  readonly publicKey?: Key | undefined;
  /** Keep the publisher's files: true, or the name of an IndexedDB database. */
  readonly cache?: boolean | string | undefined;
}

const INDEX_OPTIONS: Names<WorkerIndexOptions> = {
  index: true,
  encoder: true,
  changes: true,
  deltas: true,
  language: true,
  check: true,
  publicKey: true,
  cache: true,
};

/** What an index says of itself. */
interface IndexInfo {
  readonly id: number;
  readonly spaceId: string;
  readonly dimension: number;
  readonly size: number;
}

/** In the worker: answer at `port` (the worker's own `self`) with an encoder and with indexes. */
export function serveSearch(port: Port, runtime: Runtime): void {
  const { methods, opened } = encoderMethods(runtime);
  const page = new Caller(port);
  // Where bundlers make one file of a worker, it has no others to load.
  const load: LoadProgram = async (language) => (await page.call("stemmer", [language])) as string;
  answer(port, { ...methods, ...indexMethods(opened, load) });
}

/** What a page answers its workers with. */
const PAGE_METHODS: Methods = { stemmer: (_, language: string) => loadProgram(language) };
const answered = new WeakSet<Port>();

function indexMethods(encoderOf: (id: number) => Encoder, load: LoadProgram): Methods {
  const indexes = new Map<number, Index>();
  let last = 0;
  const opened = (id: number): Index => {
    const index = indexes.get(id);
    if (index === undefined) throw new InvalidInputError("the index was closed; open it again");
    return index;
  };
  const changed = async (id: number, work: (index: Index) => Promise<unknown>) => {
    const index = opened(id);
    const value = await work(index);
    return { value, size: index.size };
  };
  return {
    openIndex: async (
      { signal, notify }: Context,
      options: Omit<WorkerIndexOptions, "encoder">,
      encoder: number | null,
    ): Promise<IndexInfo> => {
      const { index: place, changes, deltas, language, check, publicKey, cache } = options;
      const onProgress = (progress: Progress): void => notify(progress);
      const source = place === null ? null : await openSent(place, { signal, onProgress });
      const store = changes === undefined ? undefined : changes ? new IndexedDbChanges(changes) : new MemoryChanges();
      const index = await openWith(load, source, {
        encoder: encoder === null ? undefined : encoderOf(encoder),
        changes: store,
        deltas,
        language,
        check,
        publicKey,
        cache,
        signal,
        onProgress,
      });
      throwIfAborted(signal); // nobody would close it
      const id = ++last;
      indexes.set(id, index);
      const { spaceId, dimension, size } = index;
      return { id, spaceId, dimension, size };
    },
    search: (_, id: number, query: string | VectorLike, options: SearchOptions) =>
      changed(id, (index) => index.search(query, options)), // which takes up what other tabs changed
    refreshIndex: (_, id: number) => changed(id, (index) => index.refresh()),
    snippetOf: (_, id: number, hit: SnippetSource, query: string, options: SnippetOptions) => snippet(opened(id), hit, query, options),
    absentPhrasesOf: (_, id: number, query: string) => absentPhrases(opened(id), query),
    facetsOf: (_, id: number, field: string, options: FacetOptions) => changed(id, (index) => facets(index, field, options)),
    watchIndex: ({ signal, notify }: Context, id: number) => {
      const index = opened(id);
      const end = index.onChange(() => notify(index.size));
      return new Promise<void>((resolve) => {
        signal.addEventListener("abort", () => {
          end();
          resolve();
        });
      });
    },
    getDocument: (_, id: number, document: string) => opened(id).get(document) ?? null,
    addDocuments: (
      { signal, notify }: Context,
      id: number,
      documents: readonly NewDocument[],
      vectors: readonly VectorLike[] | null,
    ) => {
      const onProgress = (done: number, all: number): void => notify([done, all]);
      return changed(id, (index) => index.add(documents, vectors, { signal, onProgress }));
    },
    deleteDocuments: (_, id: number, ids: readonly string[]) => changed(id, (index) => index.delete(ids)),
    compactIndex: (_, id: number) => changed(id, (index) => index.compact()),
    closeIndex: (_, id: number) => void indexes.delete(id),
  };
}

/** On the page: an index in a worker. Methods and errors as `Index`'s, each a promise. */
export class WorkerIndex {
  readonly spaceId: string;
  readonly dimension: number;
  readonly #caller: Caller;
  readonly #id: number;
  readonly #watches = new Set<AbortController>();
  #size: number;

  private constructor(caller: Caller, { id, spaceId, dimension, size }: IndexInfo) {
    this.#caller = caller;
    this.#id = id;
    this.spaceId = spaceId;
    this.dimension = dimension;
    this.#size = size;
  }

  /**
   * Open an index in `worker`, which answers by `serveSearch`. Errors as `openIndex`'s; and
   * InvalidInputError, where the encoder is of another worker or an option cannot be sent.
   */
  static async open(
    worker: Port,
    options: WorkerIndexOptions,
    { signal, onProgress }: { signal?: AbortSignal; onProgress?: (progress: Progress) => void } = {},
  ): Promise<WorkerIndex> {
    const { encoder: given, ...sent } = checkOptions(options, INDEX_OPTIONS);
    const encoder = await given;
    const caller = new Caller(worker);
    if (!answered.has(worker)) answer(worker, PAGE_METHODS);
    answered.add(worker);
    const onMessage = onProgress as ((message: unknown) => void) | undefined;
    const placed = { ...sent, index: sent.index === null ? null : sendable(sent.index, "the index") };
    const args = [placed, encoder === undefined ? null : WorkerEncoder.idIn(worker, encoder)];
    return new WorkerIndex(caller, (await caller.call("openIndex", args, { signal, onMessage })) as IndexInfo);
  }

  /** Documents that can be found, as of the last call. */
  get size(): number {
    return this.#size;
  }

  async search(query: string | VectorLike, options: SearchOptions = {}): Promise<Hit[]> {
    return (await this.#changed("search", [query, options])) as Hit[];
  }

  async refresh(): Promise<boolean> {
    return (await this.#changed("refreshIndex", [])) as boolean;
  }

  /** As the function of this name in `pocketquery/index`, with this index; so are `absentPhrases` and `facets`. */
  async snippet(hit: SnippetSource, query: string, options: SnippetOptions = {}): Promise<Snippet> {
    const shown = typeof hit === "string" ? hit : { text: hit?.text, metadata: { preamble: hit?.metadata?.["preamble"] } };
    return (await this.#caller.call("snippetOf", [this.#id, shown, query, options])) as Snippet;
  }

  async absentPhrases(query: string): Promise<number> {
    return (await this.#caller.call("absentPhrasesOf", [this.#id, query])) as number;
  }

  async facets(field: string, options: FacetOptions = {}): Promise<FacetCount[]> {
    return (await this.#changed("facetsOf", [field, options])) as FacetCount[];
  }

  /** As `Index.onChange`; `size` is up to date when `listener` is called. */
  onChange(listener: () => void): () => void {
    const controller = new AbortController();
    const onMessage = (size: unknown): void => {
      if (controller.signal.aborted) return;
      this.#size = size as number;
      listener();
    };
    this.#watches.add(controller);
    const watched = this.#caller.call("watchIndex", [this.#id], { signal: controller.signal, onMessage });
    watched.catch(() => undefined); // a worker that failed says so where something is asked
    return () => {
      this.#watches.delete(controller);
      controller.abort();
    };
  }

  async get(id: string): Promise<Document | undefined> {
    return ((await this.#caller.call("getDocument", [this.#id, id])) as Document | null) ?? undefined;
  }

  async add(
    documents: readonly NewDocument[],
    vectors?: readonly VectorLike[] | null,
    options: AddOptions = {},
  ): Promise<void> {
    const { signal, onProgress } = checkOptions(options);
    const onMessage = (note: unknown) => onProgress?.(...(note as [number, number]));
    await this.#changed("addDocuments", [documents, vectors ?? null], { signal, onMessage });
  }

  async delete(ids: readonly string[]): Promise<number> {
    return (await this.#changed("deleteDocuments", [ids])) as number;
  }

  async compact(): Promise<void> {
    await this.#changed("compactIndex", []);
  }

  /** Frees its memory in the worker; calls from then on throw InvalidInputError. */
  async close(): Promise<void> {
    for (const watch of this.#watches) watch.abort();
    await this.#caller.call("closeIndex", [this.#id]);
  }

  async #changed(method: string, args: unknown[], options = {}): Promise<unknown> {
    const found = await this.#caller.call(method, [this.#id, ...args], options);
    const { value, size } = found as { value: unknown; size: number };
    this.#size = size;
    return value;
  }
}
