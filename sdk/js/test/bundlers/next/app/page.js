"use client"; // rendered on the server all the same

import { useEffect } from "react";
import { show } from "../../app.js";
import { runPackaged } from "../../packaged.js";

export default function Page() {
  useEffect(() => {
    navigator.serviceWorker.register("/sw.js");
    show(runPackaged());
  }, []);
  return <pre id="out" />;
}
