/** searches.mjs in an engine without files: they are in the global DATA, and what it says goes to `print`. */

import { fromBase64 } from "pocketquery/react-native";
import { searched } from "./searches.mjs";

globalThis.setTimeout ??= (work) => void Promise.resolve().then(work);
const { expected, ...files } = JSON.parse(globalThis.DATA);
searched((name) => fromBase64(files[name]), JSON.parse(expected)).then(
  (found) => globalThis.print(JSON.stringify(found)),
  (error) => globalThis.print(`failed: ${error} ${error.stack}`),
);
