/**
 * The page without a network: every file of `site.js`, kept by its SHA-256. What the list says is for
 * later is kept when it is first asked for. Of the headers only what tells of the bytes is kept with
 * them; the others are those that `site.js` names, so that a changed Content-Security-Policy holds for
 * files that did not change.
 *
 * A newer list makes a newer worker, which fetches only what it does not find by its hash and waits;
 * the older page keeps the older files until the user, or the last tab's end, lets the newer in. Then
 * what its list does not name is deleted, unless a still newer worker is there, whose files are among
 * that: then it deletes when it is let in. Other pages of the origin have caches of their own: each is
 * named by its path, and nothing but this page's is touched.
 */

importScripts("site.js");

const { files, headers } = self.SITE;
const OF_BYTES = ["content-type", "content-length"];
const scope = new URL(self.registration.scope);
const SHARED = "pocketquery-files"; // of the page at the root; earlier versions kept every page's there
const KEPT = `${SHARED}${scope.pathname.slice(0, -1)}`; // as in offline.js
const keyOf = (sha256) => new URL(`sha256/${sha256}`, scope).href;

self.addEventListener("install", (event) => event.waitUntil(install()));
self.addEventListener("activate", (event) => event.waitUntil(activate()));
self.addEventListener("message", ({ data }) => {
  if (data === "activate") self.skipWaiting();
});
self.addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  const address = new URL(url);
  if ((method !== "GET" && method !== "HEAD") || address.origin !== scope.origin) return;
  if (!address.pathname.startsWith(scope.pathname)) return;
  const name = decodeURIComponent(address.pathname.slice(scope.pathname.length));
  if (name.startsWith("open/")) return; // the user's own files: the server's alone, never kept
  event.respondWith(respond(name, method));
});

/** Nothing is deleted meanwhile: what is found here at the beginning is here at the end. */
function install() {
  return navigator.locks.request(KEPT, keep);
}

async function keep() {
  const cache = await caches.open(KEPT);
  const first = Object.entries(files).filter(([, { later }]) => !later);
  const total = first.reduce((sum, [, { bytes }]) => sum + bytes, 0);
  let done = 0;
  for (const [name, { sha256, bytes }] of first) {
    if (!(await cache.match(keyOf(sha256)))) await cache.put(keyOf(sha256), await fetched(name, sha256));
    done += bytes;
    await tell({ kind: "progress", done, total });
  }
}

/** The file, where its bytes are those of the list. */
async function fetched(name, sha256) {
  const response = await fetch(new URL(name, scope), { cache: "no-cache" });
  if (!response.ok) throw await failure(`${name}: HTTP ${response.status}`);
  const data = await response.arrayBuffer();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  const found = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found !== sha256) throw await failure(`${name}: SHA-256 ${found}, expected ${sha256}`);
  const type = response.headers.get("content-type") ?? "application/octet-stream";
  return new Response(data, { headers: { "content-type": type, "content-length": String(data.byteLength) } });
}

async function failure(message) {
  await tell({ kind: "failure", message });
  return new Error(message);
}

async function tell(message) {
  const pages = await self.clients.matchAll({ includeUncontrolled: true, type: "window" });
  for (const page of pages) page.postMessage(message);
}

async function activate() {
  // Not waited for: a newer worker that installs has the lock for as long as its files take to arrive.
  await navigator.locks.request(KEPT, { ifAvailable: true }, (lock) => lock && tidy());
  await self.clients.claim();
}

/** Delete what the list does not name, unless a newer worker waits, whose files are kept by now. */
async function tidy() {
  const { waiting } = self.registration;
  if (waiting && waiting.state === "installed") return;
  await drop(KEPT, new Set(Object.values(files).map(({ sha256 }) => keyOf(sha256))));
  if (KEPT !== SHARED && (await caches.has(SHARED))) await drop(SHARED, new Set());
}

/** Delete from the cache what is this page's and not among `named`. */
async function drop(name, named) {
  const cache = await caches.open(name);
  for (const request of await cache.keys()) {
    if (request.url.startsWith(keyOf("")) && !named.has(request.url)) await cache.delete(request);
  }
}

async function respond(name, method) {
  if (name === "site.js") {
    const script = { ...headers, "content-type": "text/javascript; charset=utf-8" };
    return new Response(`self.SITE = ${JSON.stringify(self.SITE)};\n`, { headers: script });
  }
  const entry = files[name || "index.html"];
  if (entry === undefined) return new Response("not found\n", { status: 404 });
  const cache = await caches.open(KEPT);
  let kept = await cache.match(keyOf(entry.sha256));
  if (!kept) {
    // For later, or somebody emptied the cache; where there is a network, it has the file.
    kept = await fetched(name, entry.sha256).catch(() => null);
    if (kept === null) return Response.error();
    await cache.put(keyOf(entry.sha256), kept.clone()).catch(() => undefined);
  }
  const sent = new Headers(headers);
  for (const one of OF_BYTES) sent.set(one, kept.headers.get(one)); // an older worker kept more
  // Not `kept.body`: this worker would feed such a stream, and where a newer one takes its place meanwhile,
  // what was half read never ends, nor does the page's loading.
  return new Response(method === "HEAD" ? null : await kept.blob(), { headers: sent });
}
