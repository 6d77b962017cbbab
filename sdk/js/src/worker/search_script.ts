/** A worker that is ready, with encoder and index: one file without a bundler. See script.ts. */

import type { Port } from "../rpc.js";
import { serveSearch } from "./search_worker.js";
import { imported } from "./worker.js";

serveSearch(globalThis as unknown as Port, imported);
