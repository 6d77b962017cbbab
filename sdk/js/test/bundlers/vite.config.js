import { VitePWA } from "vite-plugin-pwa";

const globPatterns = ["**/*.{js,css,html,json,onnx,safetensors,sqlite,u8}", "**/signature"];
const workbox = { globPatterns, maximumFileSizeToCacheInBytes: 20e6 };
export default { plugins: [VitePWA({ registerType: "autoUpdate", injectRegister: "inline", workbox })] };
