export { distinct, type Example } from "./store/example.js";
