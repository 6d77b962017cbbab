/** Folders served on the loopback, compressed where asked for, with every byte counted; and Chromium. */

import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect, createServer as createProxy } from "node:net";
import { extname, join, normalize } from "node:path";
import { gzipSync } from "node:zlib";
import { chromium } from "../../sdk/js/node_modules/playwright-core/index.mjs";

const TYPES = {
  ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".mjs": "text/javascript",
  ".json": "application/json", ".wasm": "application/wasm",
};
const PACKED = new Set([".html", ".js", ".mjs", ".json", ".wasm", ".onnx", ".sqlite"]);
const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/**
 * Serves `roots` (folders by their first name in an address) and `pages` (HTML by address). What is
 * sent is counted in `sent`, by address; each file is compressed once, before it is first asked for.
 */
export async function served(roots, pages = {}) {
  const [sent, packed] = [new Map(), new Map()];
  const contentOf = (address) => {
    if (address in pages) return Buffer.from(pages[address]);
    const [, root = "", ...rest] = normalize(decodeURI(address)).split("/");
    const file = join(roots[root] ?? "/nowhere", ...rest);
    return existsSync(file) ? readFileSync(file) : null;
  };
  const server = createServer((request, response) => {
    const address = (request.url ?? "").split("?")[0];
    if (!packed.has(address)) {
      const plain = contentOf(address);
      const suffix = extname(address) || ".html";
      const small = plain && PACKED.has(suffix) ? gzipSync(plain, { level: 6 }) : null;
      packed.set(address, { plain, small, type: TYPES[suffix] ?? "application/octet-stream" });
    }
    const { plain, small, type } = packed.get(address);
    if (plain === null) return void response.writeHead(404).end();
    const data = small ?? plain;
    const headers = { "content-type": type, "content-length": data.length, "cache-control": "no-cache" };
    if (small) headers["content-encoding"] = "gzip";
    response.writeHead(200, headers);
    if (request.method === "HEAD") return void response.end();
    sent.set(address, (sent.get(address) ?? 0) + data.length);
    response.end(data);
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { address: `http://127.0.0.1:${server.address().port}`, sent, close };
}

/** A proxy before the server at `port`, which counts the bytes it sends. */
export async function counted(port) {
  const counter = { bytes: 0 };
  const proxy = createProxy((socket) => {
    const upstream = connect(port, "127.0.0.1");
    upstream.on("data", (data) => (counter.bytes += data.length));
    for (const one of [socket, upstream]) one.on("error", () => (socket.destroy(), upstream.destroy()));
    socket.pipe(upstream).pipe(socket);
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => proxy.once("listening", resolve));
  return { counter, address: `http://127.0.0.1:${proxy.address().port}/`, close: () => proxy.close() };
}

/** A browser of its own. */
export function browserAt(executablePath) {
  return chromium.launch({ executablePath, headless: true, args: ARGUMENTS });
}

/** The middle one. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}
