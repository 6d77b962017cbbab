import { MissingExtraError } from "../errors.js";

/** The error for what the runtime cannot do. */
export function unsupported(what: string): MissingExtraError {
  return new MissingExtraError(
    `the graph has ${what}, which pocketquery/runtime cannot run: it runs encoders as pocketquery exports ` +
      "them. Pass onnxruntime-web, -node or -react-native as onnxruntime",
  );
}
