/** For bundlers that know addresses of packages: they bring the built-in encoder and the ready workers. */

import { run } from "./app.js";

export function runPackaged() {
  return run(undefined, [
    new Worker(new URL("pocketquery/worker-script", import.meta.url), { type: "module" }),
    new Worker(new URL("pocketquery/search-worker-script", import.meta.url), { type: "module" }),
    new Worker(new URL("./worker.js", import.meta.url), { type: "module" }),
  ]);
}
