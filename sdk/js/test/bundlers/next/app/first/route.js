import { load } from "pocketquery/node";

export const dynamic = "force-static"; // answered once, on the server, while the app is built

export async function GET() {
  const encoder = await load();
  return Response.json(Array.from(await encoder.encodeQuery("how do I get a refund")));
}
