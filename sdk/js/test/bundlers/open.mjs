/**
 * Open a page in Chromium and print what it shows: node open.mjs CHROMIUM ADDRESS [kept]
 *
 * kept: prints "ready" once the page is kept, waits for a line, in which time its server is stopped, and opens the page again.
 */

import { createInterface } from "node:readline/promises";
import { chromium } from "playwright-core";

const [executablePath, address, kept] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update"],
});
try {
  const context = await browser.newContext();
  const page = await context.newPage();
  const requests = [];
  context.on("request", (request) => {
    const { protocol, pathname } = new URL(request.url());
    if (protocol === "http:") requests.push({ method: request.method(), path: pathname });
  });
  page.on("console", (message) => console.error(message.text()));
  page.on("pageerror", (error) => console.error(error.message));
  const shown = async () => {
    const element = await page.waitForFunction(() => document.getElementById("out")?.textContent, null, { timeout: 120_000 });
    return element.jsonValue();
  };
  await page.goto(address);
  const first = await shown();
  if (kept) {
    await page.evaluate(() => navigator.serviceWorker.ready.then(() => null));
    console.log("ready");
    await createInterface({ input: process.stdin }).question("");
    await page.reload();
    if ((await shown()) !== first) throw new Error(`with its server: ${first}\nwithout: ${await shown()}`);
  }
  console.log(JSON.stringify({ shown: first, requests }));
} finally {
  await browser.close();
}
process.exit(); // nothing more is read
