/** In the engine: its data is the global DATA, and what it says goes to `print`. */

import { prepare } from "./prelude.js";
import { run } from "./runner.js";

declare const DATA: string;
declare function print(line: string): void;

prepare();
void run(DATA, print).catch((error: unknown) => print(`failed: ${String(error)}`));
