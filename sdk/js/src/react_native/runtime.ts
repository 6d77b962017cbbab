/** The encoder's own runtime, by WebAssembly where there is some, else in plain JavaScript (Hermes). */

import { Memory } from "../runtime/memory.js";
import { plainKernels } from "../runtime/plain_kernels.js";
import { sessionsIn, Tensor } from "../runtime/runtime.js";

export { Tensor };

/** Makes sessions, as `pocketquery/runtime` does. */
export const InferenceSession = /* @__PURE__ */ sessionsIn(async () => {
  if (typeof WebAssembly !== "object") return new Memory(plainKernels());
  return Memory.open().catch(() => new Memory(plainKernels()));
});
