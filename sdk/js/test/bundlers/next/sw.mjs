/** The service worker of an app that a server renders: node sw.mjs DIST_FOLDER. It keeps the page's scripts, and "/". */

import { readFileSync } from "node:fs";
import { generateSW } from "workbox-build";

const [folder] = process.argv.slice(2);
const { count, warnings } = await generateSW({
  globDirectory: `${folder}/static`,
  globPatterns: ["**/*.{js,css}"],
  modifyURLPrefix: { "": "/_next/static/" },
  additionalManifestEntries: [{ url: "/", revision: readFileSync(`${folder}/BUILD_ID`, "utf8") }],
  swDest: "public/sw.js",
  importScripts: ["/workers.js"],
});
if (count < 2 || warnings.length > 0) throw new Error(`${count} files: ${warnings}`);
