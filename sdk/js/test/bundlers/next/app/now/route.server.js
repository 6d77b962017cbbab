import { load } from "pocketquery/node";

/** Answered by the running server, for each request: /now?text=... */
export async function GET(request) {
  const encoder = await load();
  return Response.json(Array.from(await encoder.encodeQuery(new URL(request.url).searchParams.get("text"))));
}
