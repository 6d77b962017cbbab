/** In the engine: its data is the global DATA, and what it says goes to `print`. Of what React Native has, the timer. */

import { run } from "./app.js";

declare const DATA: string;
declare function print(line: string): void;

(globalThis as Record<string, unknown>)["setTimeout"] ??= (work: () => void) => void Promise.resolve().then(work);
void run(DATA, print).catch((error: Error) => print(`failed: ${String(error)} ${error.stack}`));
