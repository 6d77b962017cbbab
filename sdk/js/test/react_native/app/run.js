/** Opens the app, searches, writes a note, finds it, deletes it, and opens the app again; prints what is seen. */

import { createElement } from "react";
import { create } from "react-test-renderer";
import "../index";

let app;
const all = (type) => app.root.findAllByType(type);
const button = (title) => all("Button").find((one) => one.props.title === title);
const shown = (id) => all("Text").filter((one) => one.props.testID === id).map((one) => one.props.children);
const input = () => all("TextInput")[0];

/** One turn of the event loop, in which React draws what changed. */
const turn = () => new Promise((resolve) => setTimeout(resolve, 0));

/** Until it is so: an app that opens has its own pace. */
async function until(condition) {
  for (let turns = 0; turns < 100_000 && !condition(); turns++) await turn();
  if (!condition()) throw new Error(`waited in vain: ${shown("state")}`);
}

async function write(text) {
  input().props.onChangeText(text);
  await until(() => input().props.value === text);
}

async function open() {
  app = create(createElement(globalThis.APP));
  await until(() => app.toJSON() !== null);
  await until(() => String(shown("state")) !== "Opening");
  return String(shown("state"));
}

async function search(text) {
  await write(text);
  const before = all("List")[0].props.children;
  button("Search").props.onPress();
  await until(() => all("List")[0].props.children !== before);
  return shown("hit");
}

async function main() {
  const said = { opened: await open() };
  said.found = (await search("how do I get a refund"))[0];
  await write("The spare key lies under the blue flower pot.");
  button("Add as a note").props.onPress();
  await until(() => String(shown("state")) !== said.opened);
  said.added = String(shown("state"));
  said.note = (await search("where is the key to the house"))[0];
  app.unmount();
  said.again = await open();
  said.kept = (await search("where is the key to the house"))[0];
  const hit = all("Text").find((one) => one.props.testID === "hit" && one.props.children === said.kept);
  const count = shown("hit").length;
  hit.props.onLongPress();
  await until(() => shown("hit").length === count - 1);
  said.deleted = String(shown("state"));
  return said;
}

main().then((said) => print(JSON.stringify(said)), (error) => print(`failed: ${error} ${error.stack}`));
