/** The page with the service worker that sw.mjs writes. */

import "./main.js";

navigator.serviceWorker.register("/sw.js");
