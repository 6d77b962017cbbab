// SERVER: rendered by a running server, which has a route of its own; else exported as files.
const mode = process.env.SERVER ? { pageExtensions: ["js", "server.js"] } : { output: "export" };
export default {
  ...mode,
  distDir: process.env.OUT,
  turbopack: { root: new URL("..", import.meta.url).pathname },
};
