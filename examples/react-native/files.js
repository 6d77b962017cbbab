/** The app's files, through react-native-fs. */

import { toBase64 } from "pocketquery/react-native";
import { Platform } from "react-native";
import RNFS from "react-native-fs";

/** @type {import("pocketquery/react-native").FileSystem} */
export const files = {
  size: async (path) => ((await RNFS.exists(path)) ? Number((await RNFS.stat(path)).size) : null),
  read: (path, begin, length) => RNFS.read(path, length, begin, "base64"),
  write: (path, bytes) => RNFS.writeFile(path, toBase64(bytes), "base64"),
  append: (path, bytes) => RNFS.appendFile(path, toBase64(bytes), "base64"),
  move: async (from, to) => {
    if (await RNFS.exists(to)) await RNFS.unlink(to); // iOS moves nothing over another file
    await RNFS.moveFile(from, to);
  },
};

export const folder = RNFS.DocumentDirectoryPath;

/** The path of a file that was shipped with the app; where that is not a file (Android), it is copied out once. */
export async function shipped(name) {
  if (Platform.OS === "ios") return `${RNFS.MainBundlePath}/${name}`;
  const path = `${folder}/${name}`;
  if (await RNFS.exists(path)) return path;
  await RNFS.copyFileAssets(name, `${path}.new`);
  await RNFS.moveFile(`${path}.new`, path); // whole or not at all
  return path;
}
