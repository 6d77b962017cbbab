// Turbopack tells a worker behind a "#" of its address what to load, and an answer that has an address of its own
// would take that away: answer with what is kept, without one.
self.addEventListener("fetch", (event) => {
  if (event.request.destination !== "worker") return;
  event.stopImmediatePropagation();
  const kept = caches.match(event.request, { ignoreSearch: true });
  event.respondWith(kept.then((found) => found ?? fetch(event.request)).then((answer) => new Response(answer.body, answer)));
});
