/** Beside the page, so that typing never stutters: the encoder, the index, and what is highlighted. */

import { answer } from "./sdk/rpc.js";
import { openWith } from "./sdk/index/index.js";
import { FetchSource, load, verify } from "./sdk/web.js";
import { Analyzer } from "./sdk/words/analyzer.js";
import { loadProgram } from "./sdk/words/languages.js";

const WORD = /[\p{L}\p{N}\p{M}_]+/gu;
// English words that say nothing of what is looked for.
const COMMON = new Set(
  ("a an and are as at be by did do does for from had has have how in is it its of on or that the " +
    "their there this to was were what when where which who whom whose why will with").split(" "),
);

let encoder = null;
let index = null;
let analyzer = null; // of the index's language
let beside = null; // a promise of what learns and takes part: a search needs neither
// Of another script than the index's, and out of reach without a network: its words stay whole.
const WHOLE = JSON.stringify({ groups: {}, tables: {}, values: {}, routines: { _stem: [["return", true]] } });
const loadStemmer = (language) => loadProgram(language).catch(() => WHOLE);
const termsOfWord = new Map(); // the same words come again and again
const [MOST_WORDS, LONGEST_WORD] = [50_000, 64]; // that are remembered

/** Where `text` has words of the query, whatever their endings: [begin, end) of each. */
async function matches(text, terms) {
  const found = [];
  for (const match of text.matchAll(WORD)) {
    const word = match[0];
    if (COMMON.has(word.toLowerCase())) continue;
    if ((await known(word)).some((term) => terms.has(term))) {
      found.push([match.index, match.index + word.length]);
    }
  }
  return found;
}

async function known(word) {
  let terms = termsOfWord.get(word);
  if (terms === undefined) {
    const own = word.split("").join(""); // put together again: a part of a text may keep the whole text in memory
    terms = await analyzer.sequence(own);
    if (own.length > LONGEST_WORD) return terms;
    if (termsOfWord.size >= MOST_WORDS) termsOfWord.clear();
    termsOfWord.set(own, terms);
  }
  return terms;
}

/** The file of a passage, what to look for in it, and its page; null where it is of none. */
function placeOf({ path, headings, page }) {
  if (typeof path !== "string") return null;
  const within = Array.isArray(headings) ? headings.filter((one) => typeof one === "string") : [];
  return { path, headings: within, page: Number.isInteger(page) ? page : null };
}

async function wordsOf(query) {
  const words = (query.match(WORD) ?? []).filter((word) => !COMMON.has(word.toLowerCase()));
  return new Set((await Promise.all(words.map(known))).flat());
}

/** Which of the two a refusal is about: its message alone does not tell the page. */
async function during(what, work) {
  try {
    return await work();
  } catch (error) {
    const { name = "Error", message = String(error) } = error ?? {};
    return { failed: what, name, message };
  }
}

async function openBeside(publicKey, rounds, canTrain) {
  const key = publicKey === null ? {} : { publicKey };
  const opened = { learner: null, cannotLearn: null, participant: null, cannotTakePart: null };
  if (!canTrain) return opened;
  try {
    const { Learner } = await import("./learner.js");
    const { fetchTrainer, loadTrainer } = await import("./trainer.js");
    const trainer = { fetch: fetchTrainer, load: loadTrainer };
    opened.learner = await Learner.open(encoder, index, trainer, key);
  } catch (error) {
    opened.cannotLearn = error.message; // it searches without
  }
  if (rounds === null || !opened.learner?.store) return opened;
  try {
    const { Participant } = await import("./participant.js");
    opened.participant = await Participant.open(rounds, opened.learner, index, key);
  } catch (error) {
    opened.cannotTakePart = error.message;
  }
  return opened;
}

const learner = async () => (await beside).learner;
const participant = async () => (await beside).participant;

answer(self, {
  open: async ({ notify, signal }, publicKey) => {
    const key = publicKey === null ? {} : { publicKey };
    const loading = load("bundle/", { signal, onProgress: notify, ...key });
    const opening = during("index", () =>
      openWith(loadStemmer, new FetchSource("index/"), { encoder: loading, ...key }),
    );
    const loaded = await during("bundle", () => loading);
    if (loaded.failed) return loaded;
    const opened = await opening;
    if (opened.failed) return opened;
    [encoder, index] = [loaded, opened];
    analyzer = new Analyzer(index.language, loadStemmer);
    const { name, spaceId, dimension, signedBy } = encoder;
    const { signatureKeyId, encoderVersion: version } = encoder.manifest; // the publisher's
    return { name, version, spaceId, dimension, signedBy, signatureKeyId, documents: index.size };
  },

  search: async (_, query, mode, k) => {
    const start = performance.now();
    const vector = mode === "lexical" ? undefined : await encoder.encodeQuery(query);
    const encoded = performance.now();
    const hits = await index.search(query, vector ? { mode, k, vector } : { mode, k });
    const ended = performance.now();
    const terms = await wordsOf(query);
    const results = [];
    for (const { id, score, text, metadata } of hits) {
      const title = typeof metadata.title === "string" ? metadata.title : "";
      const [marks, inTitle] = [await matches(text, terms), await matches(title, terms)];
      results.push({ id, score, title, text, place: placeOf(metadata), marks, inTitle });
    }
    return { results, encodeMs: encoded - start, searchMs: ended - encoded };
  },

  /** Called when the first results stand there; whether what was learnt or released is in force now. */
  beside: async (_, publicKey, rounds, canTrain) => {
    beside ??= openBeside(publicKey, rounds, canTrain);
    await beside;
    return encoder.version !== encoder.manifest.encoderVersion;
  },

  learning: async () => (await learner())?.state() ?? { available: false, reason: (await beside).cannotLearn },
  consent: async () => (await learner()).consent(),
  opened: async (_, query, shown, opened) => (await learner())?.opened(query, shown, opened) ?? false,
  exported: async () => (await learner())?.exported() ?? [],
  improve: async ({ notify }) => (await learner()).improve((done, steps) => notify({ done, steps })),
  undo: async () => (await learner()).undo(),
  forget: async (_, query) => (await learner()).forget(query),
  erase: async () => (await learner()).erase(),
  withdraw: async () => (await learner()).withdraw(),

  rounds: async () => (await participant())?.state() ?? { available: false, reason: (await beside).cannotTakePart },
  join: async () => (await participant()).join(),
  leave: async () => (await participant()).leave(),
  takePart: async ({ notify }) => (await participant()).once((done, steps) => notify({ done, steps })),

  verify: (_, publicKey) =>
    verify("bundle/", publicKey === null ? {} : { publicKey }),
});
