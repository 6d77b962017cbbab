/** Open a page in Chromium and print what it shows: node open.mjs CHROMIUM ADDRESS [offline: once more without a network] */

import { chromium } from "playwright-core";

const [executablePath, address, offline] = process.argv.slice(2);
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
  await shown();
  if (offline) {
    await page.evaluate(() => navigator.serviceWorker.ready.then(() => null));
    await context.setOffline(true);
    await page.reload();
  }
  console.log(JSON.stringify({ shown: await shown(), requests }));
} finally {
  await browser.close();
}
