/**
 * What the app of examples/react-native asks of React Native's native side: files, in memory, and views that a
 * renderer for tests draws. They stand for the phone; pocketquery, React, react-native-fs and the app are real.
 */

const files = globalThis.FILES; // by path, in base 64
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const missing = (path) => Object.assign(new Error(`ENOENT: no such file or directory, open '${path}'`), { code: "ENOENT" });
const sizeOf = (packed) => (packed.length / 4) * 3 - (packed.endsWith("==") ? 2 : packed.endsWith("=") ? 1 : 0);

/** Bytes `begin` to `end` of base 64, in base 64: whole groups are cut out, the rest is put together anew. */
function cut(packed, begin, end) {
  const first = Math.floor(begin / 3);
  const group = packed.slice(first * 4, Math.ceil(end / 3) * 4);
  return begin % 3 === 0 ? trimmed(group, end - begin) : joined(bytesOf(group).slice(begin - first * 3, end - first * 3));
}

function trimmed(packed, length) {
  return length % 3 === 0 || sizeOf(packed) === length ? packed : packed.slice(0, -4) + joined(bytesOf(packed.slice(-4)).slice(0, length % 3));
}

function bytesOf(packed) {
  const bytes = [];
  for (let i = 0; i < packed.length; i += 4) {
    const [a, b, c, d] = Array.from(packed.slice(i, i + 4), (digit) => DIGITS.indexOf(digit));
    bytes.push((a << 2) | (b >> 4));
    if (c >= 0) bytes.push(((b & 15) << 4) | (c >> 2));
    if (d >= 0) bytes.push(((c & 3) << 6) | d);
  }
  return bytes;
}

function joined(bytes) {
  let packed = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const group = (bytes[i] << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    const digits = [18, 12, 6, 0].map((shift) => DIGITS[(group >> shift) & 63]).join("");
    packed += digits.slice(0, bytes.length - i + 1).padEnd(4, "=").slice(0, 4);
  }
  return packed;
}

const RNFSManager = {
  RNFSFileTypeRegular: 0,
  RNFSFileTypeDirectory: 1,
  RNFSDocumentDirectoryPath: "/data/documents",
  exists: async (path) => path in files,
  stat: async (path) => {
    if (!(path in files)) throw missing(path);
    return { size: sizeOf(files[path]), type: 0, ctime: 0, mtime: 0 };
  },
  read: async (path, length, position) => {
    if (!(path in files)) throw missing(path);
    return cut(files[path], position, Math.min(position + length, sizeOf(files[path])));
  },
  writeFile: async (path, packed) => void (files[path] = packed),
  appendFile: async (path, packed) => void (files[path] = joined([...bytesOf(files[path]), ...bytesOf(packed)])),
  unlink: async (path) => void delete files[path],
  moveFile: async (from, to) => {
    if (!(from in files)) throw missing(from);
    if (to in files) throw new Error(`${to} exists`);
    files[to] = files[from];
    delete files[from];
  },
  copyFileAssets: async (name, to) => void (files[to] = globalThis.ASSETS[name]),
};

module.exports = {
  NativeModules: { RNFSManager },
  NativeEventEmitter: class {
    addListener() {}
  },
  Platform: { OS: "android" },
  AppRegistry: {
    registerComponent: (name, component) => void (globalThis.APP = component()),
  },
  View: "View",
  Text: "Text",
  TextInput: "TextInput",
  Button: "Button",
  FlatList: ({ data, renderItem, keyExtractor }) =>
    require("react").createElement("List", null, data.map((item) => require("react").cloneElement(renderItem({ item }), { key: keyExtractor(item) }))),
};
