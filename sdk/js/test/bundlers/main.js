import { run } from "./app.js";

const show = (text) => (document.getElementById("out").textContent = text);
run().then((found) => show(JSON.stringify(found)), (error) => show(String(error.stack)));
