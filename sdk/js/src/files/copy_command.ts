#!/usr/bin/env node
/** `npx pocketquery-copy-default FOLDER`: the built-in encoder's files into a folder that is served. */

import { copyDefault } from "../node.js";

const [folder, ...others] = process.argv.slice(2);
if (folder === undefined || folder.startsWith("-") || others.length > 0) {
  console.error(
    "usage: pocketquery-copy-default FOLDER\n\n" +
      "Copies the built-in encoder into FOLDER, for bundlers that do not: pocketquery-copy-default public/encoder, " +
      'then load("/encoder") in the page.',
  );
  process.exitCode = 2;
} else {
  try {
    const { files, bytes } = await copyDefault(folder);
    console.log(`${folder}: ${files.length} files, ${bytes} bytes`);
  } catch (error) {
    console.error(`pocketquery-copy-default: ${(error as Error).message}`);
    process.exitCode = 1;
  }
}
