"use client"; // rendered on the server all the same

import { useEffect, useState } from "react";
import { run } from "../../app.js";

export default function Page() {
  const [out, setOut] = useState("");
  useEffect(() => {
    run().then((found) => setOut(JSON.stringify(found)), (error) => setOut(String(error.stack)));
  }, []);
  return <pre id="out">{out}</pre>;
}
