/** The page: what is asked, what is found, what the device knows, and what went wrong. */

import { Caller } from "./sdk/rpc.js";
import { isPersistent, keepOffline, startAnew } from "./offline.js";
import { keepOpened, startLearning } from "./learning.js";
import { show, walk } from "./results.js";
import { startRounds } from "./rounds.js";

const LONGEST = 10_000; // UTF-16 units of a query
// A function with one SIMD instruction: the encoder needs WebAssembly with SIMD.
const SIMD = Uint8Array.of(
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15,
  253, 98, 11,
);
const ADVICE = {
  CorruptArtifactError:
    "A file is not what its publisher wrote: its hash, size or contents differ. Nothing of it is " +
    "used. Load everything again; where that does not help, fetch it from its publisher anew.",
  SignatureError:
    "It is not signed by the publisher whose key this page has. Nothing of it is used.",
  SpaceMismatchError:
    "The documents were encoded for another encoder, so that results would be nonsense. Serve the " +
    "index that belongs to this bundle, or build it again with the bundle's teacher.",
  UnsupportedVersionError: "It was written by a newer release than this page. Build sdk/js anew.",
  ArtifactNotFoundError: "A file is missing on the server.",
};

const $ = (id) => document.getElementById(id);
const [input, list, status, progress] = ["query", "results", "status", "progress"].map($);
const languageNames = new Intl.DisplayNames("en", { type: "language", fallback: "code" });
const { files, publicKey, rounds } = self.SITE;
let caller = null;

function refuse(title, advice, details = "") {
  const box = $("problem");
  box.querySelector("h2").textContent = title;
  box.querySelector(".advice").textContent = advice;
  box.querySelector(".details").textContent = details;
  box.querySelector("details").hidden = details === "";
  $("again").hidden = details === "";
  box.hidden = false;
  $("search").hidden = $("replay").hidden = $("keys").hidden = progress.hidden = true;
  status.textContent = "";
  fact("Verified", `no: ${title[0].toLowerCase()}${title.slice(1)}`, "bad");
  caller = null;
}

/** What the browser lacks that nothing works without, in words; null where it has all. */
function lacking() {
  if (!self.isSecureContext) {
    return (
      "Over plain http browsers check no hashes, except at 127.0.0.1 and localhost. Open the page " +
      "there, or over https."
    );
  }
  if (typeof WebAssembly !== "object") {
    return (
      "WebAssembly is switched off or not there; the encoder needs it. Switch it on (lockdown and " +
      "strict security modes switch it off), or use another browser."
    );
  }
  if (!WebAssembly.validate(SIMD)) return "WebAssembly has no SIMD here; use a newer browser.";
  if (typeof Worker !== "function") return "This browser has no workers; use a newer one.";
  return null;
}

function megabytes(bytes) {
  return bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function bytesOf(prefix) {
  const entries = Object.entries(files).filter(([name, { later }]) => name.startsWith(prefix) && !later);
  return entries.reduce((sum, [, { bytes }]) => sum + bytes, 0);
}

function fact(name, value, state = "") {
  const [term, description] = [document.createElement("dt"), document.createElement("dd")];
  term.textContent = name;
  description.textContent = value;
  if (state) description.className = state;
  $("facts").append(term, description);
}

function tellKnown(opened, { kept, reason }, persistent) {
  const { name, version, spaceId, dimension, passages, files: count, signedBy, signatureKeyId } = opened;
  const of = count > 0 ? ` of ${count.toLocaleString("en")} file${count === 1 ? "" : "s"}` : "";
  fact("Passages", `${passages.toLocaleString("en")}${of} (${megabytes(bytesOf("index/"))})`);
  fact("Query encoder", `${name}, version ${version} (${megabytes(bytesOf("bundle/"))})`);
  fact("Vector space", `${spaceId}, ${dimension} dimensions`, "id");
  fact("Hashes", "verified: every file is what the bundle and the index say", "good");
  if (signedBy !== null) fact("Signature", `verified: by the key ${signedBy}`, "good");
  else if (signatureKeyId) fact("Signature", `not verified: no key given to check ${signatureKeyId}`, "open");
  else fact("Signature", "none", "open");
  const firmly = persistent ? "" : "; the browser may drop it when space runs short";
  if (kept) fact("Offline", `everything is stored here (${megabytes(bytesOf(""))})${firmly}`, "good");
  else fact("Offline", `not available: ${reason}`, "open");
}

let announcing = 0;

/** For the eyes at once; for the ears when the typing pauses, or they would hear every letter's. */
function say(text) {
  status.textContent = text;
  clearTimeout(announcing);
  announcing = setTimeout(() => ($("announced").textContent = text), 700);
}

let wanted = null; // the query that waits while another is searched: of those only the last
let searching = false;
let shown = null; // what was asked for the results that stand there

/** What the form asks for; `isAll`: results that hardly fit, too. */
function asked(isAll = false) {
  const query = cut(input.value);
  const isTyped = document.activeElement === input && input.selectionEnd === input.value.length;
  return {
    query,
    mode: new FormData($("search")).get("mode"),
    prefix: isTyped && /[\p{L}\p{N}_]$/u.test(query),
    language: $("language").value,
    isAll,
  };
}

async function search(isAll = false) {
  wanted = asked(isAll);
  $("clear").hidden = input.value === "";
  if (searching || caller === null) return;
  searching = true;
  try {
    while (wanted !== null && caller !== null) {
      const now = wanted;
      wanted = null;
      if (!/[^\s"“”„«»+-]/.test(now.query)) {
        // nothing, or the sign that a phrase or a word begins with
        clearResults();
        say("Ready.");
        continue;
      }
      const start = performance.now();
      const found = await caller.call("search", [now]);
      if (wanted === null) tell(now, found, performance.now() - start);
    }
  } catch (error) {
    clearResults();
    say(`This cannot be searched for: ${error.message}`);
  } finally {
    searching = false;
  }
}

function clearResults() {
  show(list, []);
  shown = null;
  $("nothing").hidden = $("weaker").hidden = true;
}

/** The beginning of a text that is too long, without half a character at its end. */
function cut(query) {
  return query.length > LONGEST ? query.slice(0, LONGEST).replace(/[\ud800-\udbff]$/, "") : query;
}

function short(ms) {
  return ms.toFixed(ms < 10 ? 1 : 0);
}

function tell(now, { documents, isRead, isCut, absent, encodeMs, searchMs }, ms) {
  const { query } = now;
  const ids = documents.flatMap(({ passages }) => passages.map(({ id }) => id));
  const isSame = shown !== null && ["query", "mode", "language"].every((name) => shown[name] === now[name]);
  shown = now;
  const ask = {
    opened: (id) => keepOpened(query, ids, id).catch(() => undefined),
    whole: (id) => caller.call("whole", [now, id]),
    others: (path) => caller.call("others", [now, path]),
    languageOf: (code) => ($("languages").hidden || !code ? "" : nameOf(code)),
  };
  show(list, documents, ask, isSame);
  const count = documents.length === 1 ? "1 result" : `${documents.length || "No"} results`;
  const unread = isRead ? "" : ". The encoder does not read this language: words alone were searched";
  const split = absent > 0 ? ". No text has the words in quotes as they stand: each counts by itself" : "";
  say(`${count} in ${short(ms)} ms${unread}${split}`);
  $("weaker").hidden = !isCut;
  $("nothing").hidden = documents.length > 0;
  $("nothing").querySelector("p").textContent = isCut
    ? "Nothing here fits well."
    : "Nothing here has these words.";
  Object.assign(status.dataset, { ms, encodeMs, searchMs });
}

function nameOf(code) {
  try {
    return languageNames.of(code);
  } catch {
    return code; // no code of a language
  }
}

/** Where the texts are in several languages, the results may be of one. */
function offerLanguages(codes) {
  if (codes.length < 2) return;
  $("language").append(...codes.map((code) => new Option(nameOf(code), code)));
  $("languages").hidden = false;
}

async function replay() {
  $("replay").disabled = true;
  $("replayed").textContent = "Encoding them…";
  try {
    const { golden } = await caller.call("verify", [publicKey]);
    $("replayed").textContent =
      `All ${golden.texts} give the publisher's tokens, and vectors with a cosine of at least ` +
      `${golden.leastCosine.toFixed(5)}.`;
  } catch (error) {
    $("replayed").textContent = `This device does not compute what the publisher's did: ${error.message}`;
  }
  $("replay").disabled = false;
}

async function start() {
  $("again").addEventListener("click", startAnew);
  $("replay").addEventListener("click", replay);
  $("search").addEventListener("input", () => search());
  $("weaker").addEventListener("click", () => search(true));
  $("clear").addEventListener("click", () => {
    input.value = "";
    search();
    input.focus();
  });
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  walk(input, list);
  const missing = lacking();
  if (missing !== null) return refuse("This browser cannot search here", missing);
  say(`Loading ${megabytes(bytesOf(""))}, once…`);
  const offline = await keepOffline((share) => (progress.value = share), offerUpdate);
  say("Checking the files…");
  progress.removeAttribute("value");
  const connected = new Caller(new Worker("worker.js", { type: "module" }));
  const opened = await connected.call("open", [publicKey]);
  if (opened.failed) {
    const title = opened.failed === "bundle" ? "The query encoder was refused" : "The index was refused";
    return refuse(title, ADVICE[opened.name] ?? "It cannot be used.", `${opened.name}: ${opened.message}`);
  }
  caller = connected;
  progress.hidden = true;
  $("replay").disabled = false;
  offerLanguages(opened.languages);
  say("Ready.");
  await search(); // what was typed meanwhile
  tellKnown(opened, offline, await isPersistent());
  const canTrain = "onnxruntime/ort.wasm.min.mjs" in files; // a checkout has it, a wheel does not
  if (await caller.call("beside", [publicKey, rounds, canTrain])) search();
  await startLearning(caller, () => search());
  await startRounds(caller, () => search());
  document.documentElement.dataset.ready = String(offline.kept);
}

function offerUpdate(accept) {
  $("update").hidden = false;
  $("update").querySelector("button").onclick = accept;
}

start().catch((error) => {
  const advice = "Load everything again, and look whether the server runs.";
  refuse("The page could not be started", advice, `${error.name}: ${error.message}`);
});
