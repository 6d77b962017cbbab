/**
 * In the worker: what was opened is kept, with consent, and teaches the query encoder.
 *
 * Everything is in this browser's IndexedDB. An improvement always begins from the publisher's
 * encoder, with what was released since where rounds are taken part in, and is kept with what it was made of: erasing one query erases it, too.
 */

import { ArtifactError, CorruptArtifactError, readAdapter, SpaceMismatchError, UnsupportedVersionError } from "./sdk/main.js";
import { IndexedDbBackend, QueryStore } from "./sdk/store.js";
import { Bundle, distinct, LocalStep, packAdapter, trainLocally } from "./sdk/training.js";
import { FetchSource } from "./sdk/web.js";

// Pages of one origin keep apart what they learn from: the database is named by the page's path.
const QUERIES = `pocketquery-queries${new URL(".", import.meta.url).pathname.slice(0, -1)}`;
const LEAST = 8; // opened results: of fewer, one would decide
const [ADAPTER, FIGURES] = ["adapter", "figures"];
const SHOWINGS = 30; // of each query, at the most
const SETTINGS = { batchSize: 16, openedLossWeight: 1, learningRate: 3e-3 };
const LARGEST_DRIFT = 0.1; // of texts of all kinds, mean of 1 - cos
const STEP = "train_step.onnx";
const FEW = 16; // texts that tell of a release
const UNUSABLE = [CorruptArtifactError, SpaceMismatchError, UnsupportedVersionError]; // here, whatever is done

export class Learner {
  #encoder;
  #index;
  #trainer; // fetches and loads what trains
  #bundle;
  #store;
  #bound = false; // whether an improvement is in force
  #improving = false; // what is bound meanwhile is on trial, and kept by nobody
  #base = null; // what the publisher released since; null: the bundle's own adapter
  #last = Promise.resolve(); // of what changes the adapter: one at a time

  static async open(encoder, index, trainer, key) {
    const learner = new Learner();
    learner.#encoder = encoder;
    learner.#index = index;
    learner.#trainer = trainer;
    learner.#bundle = await Bundle.open(new FetchSource("bundle/"), key);
    if (!learner.#bundle.has(STEP)) return learner;
    learner.#store = await QueryStore.open(new IndexedDbBackend(QUERIES));
    await learner.#takeUp();
    return learner;
  }

  get bundle() {
    return this.#bundle;
  }

  /** Undefined where the bundle has no training step. */
  get store() {
    return this.#store;
  }

  get version() {
    return this.#encoder.version;
  }

  /**
   * From now on the publisher's encoder is the one with this release, an improvement over it or not;
   * how far it moves texts of all kinds, the mean of 1 - cos. While it is being improved, afterwards. Where
   * it fails, what was in force is again.
   */
  rebase(release) {
    return this.#inTurn(async () => {
      const texts = await this.#golden(FEW); // first: they may be out of reach
      const earlier = this.#base;
      try {
        this.#base = null;
        await this.#unbind();
        const before = await this.#encoded(texts);
        this.#base = release;
        await this.#unbind();
        const after = await this.#encoded(texts);
        await this.#takeUp();
        return 1 - mean(after.map((vector, i) => cosine(vector, before[i])));
      } catch (error) {
        this.#base = earlier;
        await this.#restore().catch(() => undefined); // why it failed says more than why this did
        throw error;
      }
    });
  }

  /** The training step, which its user closes. */
  async openStep() {
    return LocalStep.open(this.#bundle, { onnxruntime: await this.#trainer.load() });
  }

  /** What the page shows. */
  async state() {
    if (!this.#store) return { available: false, reason: null }; // the bundle has no training step
    await this.#store.tidy(); // the page may have been open for long
    const improving = this.#improving; // before what is read: by its end the improvement is kept
    const [consent, examples] = [await this.#store.consent(), await this.#store.examples()];
    const figures = await this.#store.kept(FIGURES);
    if (figures === null && this.#bound && !improving) {
      await this.#inTurn(async () => (await this.#store.kept(FIGURES)) ?? this.#unbind()); // erased in another tab
    }
    return {
      available: true,
      consent,
      searches: examples.length,
      usable: usable(examples).length,
      least: LEAST,
      version: this.#encoder.version,
      improved: figures === null ? null : JSON.parse(new TextDecoder().decode(figures)),
    };
  }

  /** From now on what is opened is kept; what trains is fetched now, for times without a network. */
  async consent() {
    await Promise.all([this.#bundle.read(STEP), this.#trainer.fetch()]);
    await this.#store.giveConsent();
  }

  async opened(query, shown, opened) {
    return this.#store ? this.#store.add(query, shown, opened) : false;
  }

  /** All that is kept, with the opened documents' titles. */
  async exported() {
    const rows = await this.#store.export();
    return rows.map((row) => ({ ...row, title: this.#index.get(row.opened ?? "")?.metadata.title ?? row.opened }));
  }

  async forget(query) {
    await this.#store.forget(query);
    await this.#inTurn(() => this.#unbind());
  }

  async erase() {
    await this.#store.eraseAll();
    await this.#inTurn(() => this.#unbind());
  }

  async withdraw() {
    await this.#store.withdrawConsent();
    await this.#inTurn(() => this.#unbind());
  }

  undo() {
    return this.#inTurn(() => this.#undo());
  }

  /** Train on what was opened; `{ kept, reason }`. What does not find more is not kept. Once at a time. */
  async improve(onStep) {
    if (this.#improving) return { kept: false, reason: "it is being improved already" };
    this.#improving = true;
    try {
      return await this.#inTurn(() => this.#improve(onStep));
    } finally {
      this.#improving = false;
    }
  }

  async #improve(onStep) {
    await this.#store.tidy(); // what expired teaches nothing
    const epoch = await this.#store.epoch(); // read first: what is erased from here on, changes it
    const examples = usable(await this.#store.examples());
    if (examples.length < LEAST) return { kept: false, reason: `${LEAST} opened results are needed` };
    const step = await this.openStep();
    await this.#unbind(); // it begins from the publisher's
    let kept = false;
    try {
      const texts = await this.#golden();
      const [before, still] = [await this.#places(examples), await this.#encoded(texts)];
      const batch = Math.min(SETTINGS.batchSize, examples.length);
      const result = await trainLocally({
        encoder: this.#encoder,
        step,
        examples,
        documents: this.#index.vectors(),
        adapter: this.#encoder.adapter,
        config: { ...SETTINGS, steps: Math.min(60, Math.ceil((SHOWINGS * examples.length) / batch)) },
        mayContinue: async () => ((await this.#store.epoch()) === epoch ? null : "searches were erased meanwhile"),
        onStep,
      });
      if (result.stopped !== null) return { kept, reason: result.stopped };
      const { manifest } = this.#bundle;
      const version = `${manifest.encoderVersion}-local`;
      const parentVersion = manifest.encoderVersion;
      const bytes = await packAdapter(result.adapter, { manifest, version, parentVersion });
      await this.#bind(await readAdapter(bytes, manifest));
      const [after, moved] = [await this.#places(examples), await this.#encoded(texts)];
      const drift = 1 - mean(moved.map((vector, i) => cosine(vector, still[i])));
      if (drift > LARGEST_DRIFT) return { kept, reason: "other queries would find other things" };
      if (after.gain <= before.gain || after.place > before.place) return { kept, reason: "it would not find more of what you opened" };
      const figures = { opened: examples.length, before: before.place, after: after.place, drift, time: Date.now() };
      const told = new TextEncoder().encode(JSON.stringify(figures));
      kept = await this.#store.keep({ [ADAPTER]: bytes, [FIGURES]: told }, epoch);
      return { kept, reason: kept ? null : "searches were erased meanwhile" };
    } finally {
      await step.close();
      if (!kept) await this.#restore();
    }
  }

  /** What was there before is in force again: the publisher's, and the improvement that is kept. */
  async #restore() {
    await this.#unbind();
    await this.#takeUp();
  }

  /** The improvement that is kept, where it is still of this encoder. */
  async #takeUp() {
    const bytes = await this.#store.kept(ADAPTER);
    if (bytes === null) return;
    let read;
    try {
      read = await readAdapter(bytes, this.#bundle.manifest);
    } catch (error) {
      if (!UNUSABLE.some((unusable) => error instanceof unusable)) throw error;
      return this.#discard(); // of an encoder that the publisher replaced since
    }
    await this.#bind(read).catch(() => undefined); // say, for want of memory: it is there for another time
  }

  /** Nobody asked for it, so nothing else is risked: without space to write it down, it is there still. */
  async #discard() {
    try {
      await this.#store.discardKept(ADAPTER, FIGURES); // what rounds left stays
    } catch (error) {
      if (!(error instanceof ArtifactError)) throw error;
    }
  }

  async #undo() {
    await this.#store.dropKept(ADAPTER, FIGURES); // what rounds left stays
    await this.#unbind();
  }

  /** Once what was begun before is done: what changes the adapter measures or trains it, too. */
  #inTurn(work) {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  /** As tensors: the device signs nothing, so a publisher's key does not apply to what it made. */
  async #bind({ tensors }) {
    await this.#encoder.swapAdapter(tensors);
    this.#bound = true;
  }

  async #unbind() {
    await this.#encoder.swapAdapter(this.#base);
    this.#bound = false;
  }

  /** Where opened results stand by meaning: their mean place, and the mean of 1 / place. */
  async #places(examples) {
    const places = [];
    for (const { query, shown, opened } of examples) {
      const k = Math.max(100, shown.length);
      const vector = await this.#encoder.encodeQuery(query);
      const hits = await this.#index.search(vector, { k });
      const place = hits.findIndex(({ id }) => id === opened);
      places.push(place < 0 ? k + 1 : place + 1);
    }
    return { place: mean(places), gain: mean(places.map((place) => 1 / place)) };
  }

  /** The bundle's texts of all kinds. */
  async #golden(most) {
    const { texts } = JSON.parse(new TextDecoder().decode(await this.#bundle.read("golden.json")));
    return texts.slice(0, most).map(({ text }) => text);
  }

  #encoded(texts) {
    return this.#encoder.encode(texts, { prompt: "" });
  }
}

/** One search of each query, its newest with an opened result that stood among others. */
function usable(examples) {
  return distinct(examples).filter(({ shown, opened }) => opened !== null && shown.length > 1);
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function cosine(left, right) {
  return left.reduce((sum, value, i) => sum + value * right[i], 0); // both have length 1
}
