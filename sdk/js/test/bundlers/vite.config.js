import { VitePWA } from "vite-plugin-pwa";

// Without WITH_FILES the page alone is kept, and bundle and index by `cache: true`.
const globPatterns = ["**/*.{js,css,html,json,onnx,safetensors,sqlite,u8}", "**/signature"];
const workbox = process.env.WITH_FILES ? { globPatterns, maximumFileSizeToCacheInBytes: 20e6 } : {};
export default { plugins: [VitePWA({ registerType: "autoUpdate", injectRegister: "inline", workbox })] };
