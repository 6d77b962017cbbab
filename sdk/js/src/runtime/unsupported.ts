import { MissingExtraError } from "../errors.js";

/** The error for what the runtime cannot do, which the graph or something else has. */
export function unsupported(what: string, whose = "the graph"): MissingExtraError {
  return new MissingExtraError(
    `${whose} has ${what}, which pocketquery/runtime cannot run: it runs encoders as pocketquery exports ` +
      "them. Pass onnxruntime-web, -node or -react-native as onnxruntime",
  );
}
