/** The app's own configuration, but that "react-native" is what stands beside this file. */
const { getDefaultConfig, mergeConfig } = require("@react-native/metro-config");
const path = require("node:path");

module.exports = mergeConfig(getDefaultConfig(path.dirname(__dirname)), {
  resolver: {
    resolveRequest: (context, name, platform) =>
      name === "react-native" ? { type: "sourceFile", filePath: path.join(__dirname, "react-native.js") } : context.resolveRequest(context, name, platform),
  },
  serializer: { getModulesRunBeforeMainModule: () => [], getPolyfills: () => [] },
});
