import resolve from "@rollup/plugin-node-resolve";

const input = ["copied.js", "encoder_worker.js", "search_worker.js", "worker.js"];
export default { input, output: { dir: "built/rollup" }, plugins: [resolve({ browser: true })] };
