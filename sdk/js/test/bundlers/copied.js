/** For bundlers that do not: the encoder is copied, and each worker is an entry of its own. */

import { run, show } from "./app.js";

const module = { type: "module" };

navigator.serviceWorker.register("/sw.js");
show(run("/encoder", ["/encoder_worker.js", "/search_worker.js", "/worker.js"].map((script) => new Worker(script, module))));
