/** The service worker as the page sees it: kept for offline, not kept and why, a newer version. */

const PATIENCE = 2000; // ms for a newer worker to take over
const SCOPE = new URL(".", import.meta.url); // of the service worker: the page's folder
const CLAIM = 60_000; // ms for a first worker, which takes the page over before it says that it is active

/**
 * Wait until everything is stored, or until it is clear that it cannot be; the page works in both.
 *
 * `onProgress` gets a share of 1, `onUpdate` a function that lets a newer version in. Returns
 * `{ kept, reason }`.
 */
export async function keepOffline(onProgress, onUpdate) {
  const { serviceWorker } = navigator;
  if (!serviceWorker) {
    return { kept: false, reason: "this browser, or this private window, has no service workers" };
  }
  let failure = "";
  serviceWorker.addEventListener("message", ({ data }) => {
    if (data.kind === "progress") onProgress(data.done / data.total);
    if (data.kind === "failure") failure = data.message;
  });
  let registration;
  try {
    registration = await serviceWorker.register("service_worker.js", { updateViaCache: "none" });
  } catch (error) {
    // Without a network an older worker goes on.
    registration = await serviceWorker.getRegistration().catch(() => undefined);
    if (!registration) return { kept: false, reason: String(error.message ?? error) };
  }
  if (!registration) return { kept: false, reason: "service workers are switched off" };
  const { active, waiting, installing } = registration;
  const first = active?.state === "activated" ? null : (active ?? waiting ?? installing);
  if (first && (await outcome(first)) === "redundant") {
    return { kept: false, reason: failure || "not everything could be stored: is there space left?" };
  }
  await controlled(first ? CLAIM : PATIENCE);
  watch(registration, onUpdate);
  return { kept: serviceWorker.controller !== null, reason: "the page was reloaded without it" };
}

function outcome(worker) {
  return new Promise((resolve) => {
    const look = () => {
      if (worker.state === "activated" || worker.state === "redundant") resolve(worker.state);
    };
    worker.addEventListener("statechange", look);
    look();
  });
}

/** A page that was reloaded with Shift is never controlled, so this ends without it, too. */
async function controlled(patience) {
  const { serviceWorker } = navigator;
  if (serviceWorker.controller) return;
  await Promise.race([
    new Promise((resolve) => serviceWorker.addEventListener("controllerchange", resolve, { once: true })),
    new Promise((resolve) => setTimeout(resolve, patience)),
  ]);
}

function watch(registration, onUpdate) {
  const { serviceWorker } = navigator;
  let asked = false;
  const offer = (worker) =>
    onUpdate(() => {
      asked = true;
      worker.postMessage("activate");
      // Where it is asked while a page loads, Chromium may let the older worker end for minutes; a page that
      // is loaded anew ends it.
      setTimeout(() => location.reload(), PATIENCE);
    });
  if (registration.waiting) offer(registration.waiting);
  const follow = () => {
    const worker = registration.installing;
    worker?.addEventListener("statechange", () => {
      if (worker.state === "installed" && registration.active) offer(worker);
    });
  };
  registration.addEventListener("updatefound", follow);
  follow(); // of one that is being stored already, nothing more is told
  // Another tab may have let it in: a page of the older version must not go on with newer files.
  const first = serviceWorker.controller;
  serviceWorker.addEventListener("controllerchange", () => {
    if (asked || first !== null) location.reload();
  });
}

/** Whether the browser promises not to drop what is stored when space runs short. */
export async function isPersistent() {
  try {
    return (await navigator.storage.persisted()) || (await navigator.storage.persist());
  } catch {
    return false;
  }
}

/** Forget this page's files, and load it from the network. */
export async function startAnew() {
  try {
    await caches.delete(`pocketquery-files${SCOPE.pathname.slice(0, -1)}`); // as in service_worker.js
    const registration = await navigator.serviceWorker?.getRegistration();
    if (registration?.scope === SCOPE.href) await registration.unregister(); // else it is another page's
  } finally {
    location.reload();
  }
}
