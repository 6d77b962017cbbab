/**
 * Write a service worker that keeps the page itself: node sw.mjs FOLDER [SCRIPT, which it imports]. Bundle and index are
 * kept by `cache: true`.
 */

import { generateSW } from "workbox-build";

const [folder, ...importScripts] = process.argv.slice(2);
const { count, warnings } = await generateSW({
  globDirectory: folder,
  globPatterns: ["**/*.{js,css,html}"],
  swDest: `${folder}/sw.js`,
  importScripts,
});
if (count === 0 || warnings.length > 0) throw new Error(`${count} files: ${warnings}`);
