/**
 * A worker that is ready: one file without a bundler. onnxruntime-web is imported where the page says
 * where it lies (`WorkerLoadOptions.onnxruntime`).
 */

import type { Port } from "../rpc.js";
import { imported, serveEncoder } from "./worker.js";

serveEncoder(globalThis as unknown as Port, imported);
