/** The list of results: highlighted, opened one at a time, walked through with the arrow keys. */

const AROUND = 260; // characters of a text that are shown before it is opened
const NEAR = 40; // how far a space may lie to begin or end there; Chinese and Japanese have none

/**
 * Show `results` in `list`, in place of what it had; `onOpen` is told the first opening of each. Results of
 * the same query as before, asked again by the page itself, stay open, and the focus stays where it was.
 */
export function show(list, results, onOpen = () => undefined, isSame = false) {
  const before = isSame ? [...list.children] : [];
  const open = before.filter((entry) => entry.querySelector("[aria-expanded=true]")).map(({ dataset }) => dataset.id);
  const focused = before.find((entry) => entry.contains(document.activeElement))?.dataset.id;
  list.replaceChildren(...results.map((result, i) => item(result, i, onOpen, open.includes(result.id))));
  if (focused === undefined) return;
  const entry = [...list.children].find(({ dataset }) => dataset.id === focused);
  (entry?.querySelector(".title") ?? list).focus({ preventScroll: true });
}

function item(result, i, onOpen, isOpenAlready) {
  const entry = document.createElement("li");
  entry.dataset.id = result.id;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "title";
  button.setAttribute("aria-expanded", "false");
  button.setAttribute("aria-controls", `text-${i}`);
  button.append(...highlighted(result.title || result.id, result.title ? result.inTitle : []));
  const score = document.createElement("span");
  score.className = "score";
  score.textContent = result.score.toFixed(2);
  score.title = "the higher the better";
  const text = document.createElement("p");
  text.id = `text-${i}`;
  text.append(...excerpt(result));
  const heading = document.createElement("h3");
  heading.append(button);
  entry.append(heading, score, text);
  if (result.place) entry.append(placed(result.place));
  const turn = () => {
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    text.replaceChildren(...(isOpen ? excerpt(result) : highlighted(result.text, result.marks)));
  };
  if (isOpenAlready) turn();
  else button.addEventListener("click", () => onOpen(result), { once: true });
  button.addEventListener("click", turn);
  return entry;
}

/** Which file and headings a passage is of; a link to there where the server opens files. */
function placed({ path, headings, page }) {
  const where = document.createElement(self.SITE?.opens ? "a" : "p");
  where.className = "place";
  where.textContent = [path, ...headings].join(" › ");
  if (!self.SITE?.opens) return where;
  const [at] = headings.slice(-1);
  const heading = at ? `#:~:text=${encodeURIComponent(at).replaceAll("-", "%2D")}` : "";
  where.href = `open/${path.split("/").map(encodeURIComponent).join("/")}${page ? `#page=${page}` : heading}`;
  where.target = "_blank";
  where.rel = "noopener";
  return where;
}

/** `text` as nodes, what lies in `marks` within <mark>. */
function highlighted(text, marks, begin = 0, end = text.length) {
  const nodes = [];
  let at = begin;
  for (const [from, to] of marks) {
    if (from < at || to > end) continue;
    const mark = document.createElement("mark");
    mark.textContent = text.slice(from, to);
    nodes.push(text.slice(at, from), mark);
    at = to;
  }
  nodes.push(text.slice(at, end));
  return nodes;
}

/** The part of a text with the most different words of the query. */
function excerpt({ text, marks }) {
  if (text.length <= AROUND) return highlighted(text, marks);
  let [best, most] = [0, 0];
  for (const [from] of marks) {
    const within = marks.filter(([begin, end]) => begin >= from && end <= from + AROUND - NEAR);
    const words = new Set(within.map(([begin, end]) => text.slice(begin, end).toLowerCase()));
    if (words.size > most) [best, most] = [from, words.size];
  }
  const space = text.indexOf(" ", best - NEAR);
  const begin = best <= NEAR ? 0 : space >= 0 && space < best ? space + 1 : best - NEAR;
  const last = begin + AROUND;
  const cut = text.lastIndexOf(" ", last);
  const end = last >= text.length ? text.length : cut > last - NEAR ? cut : last;
  const nodes = highlighted(text, marks, begin, end);
  return [begin > 0 ? "… " : "", ...nodes, end < text.length ? " …" : ""];
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
