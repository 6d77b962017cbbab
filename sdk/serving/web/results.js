/** The list of results by file: marked, opened one at a time, walked through with the arrow keys. */

let count = 0; // of the passages that stand there: their texts are named by it

/**
 * Show `documents` in `list`, in place of what it had. Results of the same query as before, asked again by the page
 * itself, stay open, and the focus stays where it was.
 *
 * @param ask `opened(id)` is told the first opening of each, `whole(id)` and `others(path)` give what else is shown,
 *   `languageOf(code)` a language's name, or "" where it needs none
 */
export function show(list, documents, ask, isSame = false) {
  const before = isSame ? [...list.querySelectorAll(".passage")] : [];
  const open = before.filter((entry) => entry.querySelector("[aria-expanded=true]")).map(({ dataset }) => dataset.id);
  const focused = before.find((entry) => entry.contains(document.activeElement))?.dataset.id;
  count = 0;
  list.replaceChildren(...documents.map((one) => item(one, ask, open)));
  if (focused === undefined) return;
  const entry = [...list.querySelectorAll(".passage")].find(({ dataset }) => dataset.id === focused);
  (entry?.querySelector(".title") ?? list).focus({ preventScroll: true });
}

/** An element with a class, and what is in it. */
function element(name, className, ...content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

function item({ passages, others }, ask, open) {
  const [first] = passages;
  const entry = element("li", "document");
  const language = ask.languageOf(first.place.language);
  if (first.place.path !== null || language) entry.append(placed(first.place, language));
  entry.append(...passages.map((one, i) => passage(one, i === 0, ask, open)));
  if (others > 0) {
    const more = element("button", "more", `${others} more in this file`);
    more.type = "button";
    more.addEventListener("click", async () => {
      more.disabled = true;
      const had = document.activeElement === more;
      const all = await ask.others(first.place.path).catch(() => null);
      if (all === null) return (more.disabled = false);
      const rest = all.map((one) => passage(one, false, ask, []));
      more.replaceWith(...rest);
      if (had) rest[0]?.querySelector(".title").focus();
    });
    entry.append(more);
  }
  return entry;
}

/** Which file a passage is of; a link to there where the server opens files. */
function placed({ path, headings, page }, language) {
  const line = element("p", "place");
  if (path !== null) {
    const opens = Boolean(self.SITE?.opens);
    const where = element(opens ? "a" : "span", "", path.split("/").join(" › "));
    if (opens) {
      const [at] = headings.slice(-1);
      const heading = at ? `#:~:text=${encodeURIComponent(at).replaceAll("-", "%2D")}` : "";
      where.href = `open/${path.split("/").map(encodeURIComponent).join("/")}${page ? `#page=${page}` : heading}`;
      where.target = "_blank";
      where.rel = "noopener";
    }
    line.append(where);
  }
  if (page) line.append(element("span", "chip", `page ${page}`));
  if (language) line.append(element("span", "chip", language));
  return line;
}

function passage({ id, score, place, name, heading, excerpt }, isFirst, ask, open) {
  const entry = element("div", isFirst ? "passage" : "passage further");
  entry.dataset.id = id;
  const button = element("button", "title");
  button.type = "button";
  const parts = [isFirst ? name : { text: "" }, heading].filter(({ text }) => text !== "");
  if (parts.length === 0) parts.push(name.text === "" ? { text: place.path?.split("/").pop() ?? id, marks: [] } : name);
  for (const [i, part] of parts.entries()) {
    if (i > 0) button.append(" › ");
    button.append(element("span", i > 0 ? "heading" : "", ...highlighted(part)));
  }
  const text = element("div", "text", ...highlighted(excerpt));
  text.id = `text-${count++}`;
  button.setAttribute("aria-expanded", "false");
  button.setAttribute("aria-controls", text.id);
  const number = element("span", "score", score.toFixed(2));
  number.title = "How well it fits: the higher the better";
  entry.append(element("h3", "", button), number, text);
  const turn = async () => {
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) return text.replaceChildren(...highlighted(excerpt));
    const lines = await ask.whole(id).catch(() => null);
    if (lines === null) return button.setAttribute("aria-expanded", "false");
    if (button.getAttribute("aria-expanded") === "true") text.replaceChildren(...blocks(lines));
  };
  if (open.includes(id)) turn();
  else button.addEventListener("click", () => ask.opened(id), { once: true });
  button.addEventListener("click", turn);
  return entry;
}

/** Lines as paragraphs, and runs of code as code. */
function blocks(lines) {
  const made = [];
  for (const line of lines) {
    const last = made.at(-1);
    const name = line.isCode ? "pre" : "p";
    if (last?.localName === name) last.append("\n", ...highlighted(line));
    else made.push(element(name, "", ...highlighted(line)));
  }
  return made;
}

/** A text as nodes, its marks within <mark>. */
function highlighted({ text, marks = [] }) {
  const nodes = [];
  let at = 0;
  for (const [from, to] of marks) {
    nodes.push(text.slice(at, from), element("mark", "", text.slice(from, to)));
    at = to;
  }
  nodes.push(text.slice(at));
  return nodes;
}

/** Arrow keys between `input` and the titles in `list`; Escape and "/" lead back to `input`. */
export function walk(input, list) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const titles = [...list.querySelectorAll(".title")];
    const at = titles.indexOf(document.activeElement);
    const inList = at >= 0 || document.activeElement === list;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: titles.length - 1 }[event.key];
    if (event.key === "/" && document.activeElement !== input) {
      input.focus();
    } else if (event.key === "Escape" && inList) {
      input.focus();
    } else if (to !== undefined && inList) {
      (titles[Math.min(to, titles.length - 1)] ?? input).focus();
    } else if (event.key === "ArrowDown" && document.activeElement === input && titles.length) {
      titles[0].focus();
    } else {
      return;
    }
    event.preventDefault();
  });
}
