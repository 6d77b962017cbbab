/** The page of one's own index: a search, and the file that its first result opens. Prints JSON. */

import { inBrowser, ready, searched, started } from "./web_browser.mjs";

const { python, playwright, chromium, serve, site, query } = JSON.parse(process.argv[2]);

await inBrowser(playwright, chromium, async (browser) => {
  const { address } = await started(python, serve, site);
  const context = await browser.newContext();
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await page.goto(address);
  await ready(page, true); // the service worker, too, lets the user's files through
  await searched(page, query);
  const first = page.locator("#results > li").first();
  const [opened] = await Promise.all([context.waitForEvent("page"), first.locator(".place a").click()]);
  await opened.waitForLoadState();
  return {
    errors,
    shown: await first.innerText(),
    marked: await first.locator(".text mark").allInnerTexts(),
    link: await first.locator(".place a").getAttribute("href"),
    text: await opened.evaluate("document.body.innerText"),
  };
});
