/** Beside the page, so that typing never stutters: the encoder, the index, and what is shown of a result. */

import { answer } from "./sdk/rpc.js";
import { absentPhrases, facets, openWith, snippet } from "./sdk/index/index.js";
import { FetchSource, load, verify } from "./sdk/web.js";
import { loadProgram } from "./sdk/words/languages.js";

const [DOCUMENTS, PASSAGES, DEPTH] = [10, 2, 50]; // shown, of each at first, and looked at
const EXCERPT = 240; // characters
// Of a hybrid score: what an unrelated query reaches stays below, as in `pocketquery search`.
const LEAST_SCORE = 0.15;
const LEAST_SHARE = 0.01; // of the texts, for a language to be offered
const INDENTED = /^(?: {2,}|\t)\s*(?![-*+•]|\d+[.)])\S/;
const CODE = new RegExp(`${INDENTED.source}|^(?:\\$|>>>|\\.\\.\\.) |[{};]$|\\S {3,}\\S`);
const BEGINS_CODE = /[:([,]$/;

let encoder = null;
let index = null;
let beside = null; // a promise of what learns and takes part: a search needs neither
let isRead = true; // the last query, by the encoder
let encodeMs = 0; // of the last query
// Of another script than the index's, and out of reach without a network: its words stay whole.
const WHOLE = JSON.stringify({ groups: {}, tables: {}, values: {}, routines: { _stem: [["return", true]] } });
const loadStemmer = (language) => loadProgram(language).catch(() => WHOLE);

/** The encoder as a search asks it: what it does not read, and how long it takes, is remembered. */
const watched = (loaded) => ({
  spaceId: loaded.spaceId,
  dimension: loaded.dimension,
  reads: (text) => (isRead = loaded.reads(text)),
  encodeQuery: async (text) => {
    const start = performance.now();
    const vector = await loaded.encodeQuery(text);
    encodeMs = performance.now() - start;
    return vector;
  },
});

/** A text, or a hit's, in one line with the query's words marked: { text, marks: [[begin, end], ...] }. */
const marked = (text, { query, prefix }, length = Math.max(20, text.length)) =>
  snippet(index, text, query, { length, prefix });

/** The fields that the folder's reader writes, where they are what it writes. A title ends with the headings below it. */
function placeOf({ title, path, headings, page, language }) {
  const name = typeof title === "string" ? title : "";
  const all = Array.isArray(headings) ? headings.filter((one) => typeof one === "string") : [];
  const first = all.findIndex((_, i) => name.endsWith(`: ${all.slice(i).join(": ")}`));
  const below = first < 0 ? [] : all.slice(first);
  return {
    name: first < 0 ? name : name.slice(0, -`: ${below.join(": ")}`.length),
    headings: below,
    path: typeof path === "string" ? path : null,
    page: Number.isInteger(page) ? page : null,
    language: typeof language === "string" ? language : "",
  };
}

/** What is shown of a hit: its place, and its title and text with the query's words marked. */
async function passage(hit, asked) {
  const { id, score } = hit;
  const place = placeOf(hit.metadata);
  const heading = await marked(place.headings.join(" › "), asked);
  return { id, score, place, heading, name: await marked(place.name, asked), excerpt: await marked(hit, asked, EXCERPT) };
}

/** Hits by the file they are of, in the order of its best; a hit of no file stands alone. */
function byFile(hits) {
  const files = new Map();
  for (const hit of hits) {
    const { path } = hit.metadata;
    const key = typeof path === "string" ? path : Symbol(hit.id);
    files.set(key, [...(files.get(key) ?? []), hit]);
  }
  return [...files.values()];
}

/** The lines of a text, marked; what looks like code keeps its blanks, as does the line that begins it. */
async function linesOf(text, asked) {
  const lines = [];
  const all = text.split("\n");
  for (const [i, line] of all.entries()) {
    const isCode = CODE.test(line) || (BEGINS_CODE.test(line) && INDENTED.test(all[i + 1] ?? ""));
    const one = isCode || line.trim() === "" ? { text: line, marks: [] } : await marked(line, asked);
    lines.push({ ...one, isCode });
  }
  return lines;
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
      openWith(loadStemmer, new FetchSource("index/"), { encoder: loading.then(watched), ...key }),
    );
    const loaded = await during("bundle", () => loading);
    if (loaded.failed) return loaded;
    const opened = await opening;
    if (opened.failed) return opened;
    [encoder, index] = [loaded, opened];
    const { name, spaceId, dimension, signedBy } = encoder;
    const { signatureKeyId, encoderVersion: version } = encoder.manifest; // the publisher's
    const languages = (await facets(index, "language")).filter(({ documents }) => documents >= LEAST_SHARE * index.size);
    const files = (await facets(index, "path")).length;
    const codes = languages.map(({ value }) => String(value));
    return { name, version, spaceId, dimension, signedBy, signatureKeyId, passages: index.size, files, languages: codes };
  },

  /** `asked`: the query, its mode, whether its last word is still typed, a language or "", whether weak hits count. */
  search: async (_, asked) => {
    const { query, mode, prefix, language, isAll } = asked;
    const start = performance.now();
    [isRead, encodeMs] = [true, 0];
    const options = { mode, k: DEPTH, prefix, ...(language && { languages: [language] }) };
    const isBounded = mode === "hybrid" && !isAll;
    let hits = await index.search(query, isBounded ? { ...options, minScore: LEAST_SCORE } : options);
    if (isBounded && !isRead) hits = await index.search(query, options);
    const searchMs = performance.now() - start - encodeMs;
    const documents = [];
    for (const all of byFile(hits).slice(0, DOCUMENTS)) {
      const passages = await Promise.all(all.slice(0, PASSAGES).map((hit) => passage(hit, asked)));
      documents.push({ passages, others: all.length - passages.length });
    }
    let isCut = isBounded && isRead && hits.length < Math.min(DEPTH, index.size);
    if (isCut && hits.length === 0) isCut = (await index.search(query, { ...options, k: 1 })).length > 0;
    return { documents, isRead, isCut, absent: await absentPhrases(index, query), encodeMs, searchMs };
  },

  /** The passages of a file that were found after the first ones. */
  others: async (_, asked, path) => {
    const { query, mode, prefix, language } = asked;
    const languages = language && { languages: [language] };
    const hits = await index.search(query, { mode, k: DEPTH, prefix, filter: { path }, ...languages });
    return Promise.all(hits.slice(PASSAGES, PASSAGES + DOCUMENTS).map((hit) => passage(hit, asked)));
  },

  whole: async (_, asked, id) => linesOf(index.get(id)?.text ?? "", asked),

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
