/**
 * The pictures of the search page in docs/images: desktop, phone and dark; from the root of a checkout that is built:
 *
 *     .venv/bin/pocketquery index docs --output build/docs.index
 *     node tests/examples/web_pictures.mjs build/docs.index docs/images
 *
 * Those that are committed have a palette of 256 colours (Pillow's `quantize(256)`), which makes them a third as large.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { inBrowser, ready, searched, started, stopped } from "./web_browser.mjs";

const [index, folder] = process.argv.slice(2);
const root = fileURLToPath(new URL("../..", import.meta.url));
const phone = { viewport: { width: 360, height: 760 }, isMobile: true, hasTouch: true };
const PICTURES = {
  web_desktop: { viewport: { width: 1180, height: 820 }, colorScheme: "light" },
  web_phone: { ...phone, colorScheme: "light" },
  web_dark: { ...phone, colorScheme: "dark" },
};
const QUERY = "search notes in the browser";

await inBrowser(join(root, "sdk/js/node_modules/playwright-core/index.js"), process.env.CHROMIUM ?? "/usr/bin/chromium", async (browser) => {
  const server = await started(join(root, ".venv/bin/python"), join(root, "examples/web/serve.py"), ["--index", index]);
  for (const [name, options] of Object.entries(PICTURES)) {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    await page.goto(server.address);
    await ready(page);
    for (let i = 0; i < 3; i++) await searched(page, QUERY); // as fast as it is in use
    await page.screenshot({ path: join(folder, `${name}.png`) });
    await context.close();
  }
  await stopped(server.server);
});
