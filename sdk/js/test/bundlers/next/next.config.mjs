export default {
  output: "export",
  distDir: process.env.OUT,
  turbopack: { root: new URL("..", import.meta.url).pathname },
};
