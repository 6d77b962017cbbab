export default { mode: "production", entry: { main: "./offline.js" }, performance: { hints: false } };
