// ---- search: matches are highlighted, and keys step through them --------------------------------------------------
import { page, state } from "./data.mjs";
import { make } from "./elements.mjs";
import { reveal } from "./selection.mjs";

const MOST_LISTED = 50;
function haystack(side) {
  side.haystack ||= side.nodes.map(node => [node.name, node.type, ...node.outputs.map(output => output[1]), ...node.source.map(pair => pair[1])].join("\n").toLowerCase());
  return side.haystack;
}
export function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean), exact = text.trim().toLowerCase();
  if (!words.length) return [];
  const matches = state.panes.flatMap(pane => haystack(pane.side).flatMap((hay, node) => words.every(word => hay.includes(word)) ? [{ pane, node }] : []));
  const isExact = hit => Number(hit.pane.side.nodes[hit.node].name.toLowerCase() === exact);
  return matches.sort((a, b) => isExact(b) - isExact(a));
}
const nodeOf = hit => hit.pane.side.nodes[hit.node];

function showSteps() {
  page.steps.hidden = !state.hits.length;
  page.count.textContent = state.step < 0 ? `${state.hits.length} found` : `${state.step + 1} of ${state.hits.length}`;
  [...page.hits.querySelectorAll("li:not(.more)")].forEach((item, at) => item.classList.toggle("active", at === state.step));
}
export function stepTo(by) {
  if (!state.hits.length) return;
  state.step = state.step < 0 ? by > 0 ? 0 : state.hits.length - 1 : (state.step + by + state.hits.length) % state.hits.length;
  go();
}
function go() {
  const hit = state.hits[state.step];
  reveal(hit.pane, hit.node); showSteps();
  page.hits.querySelector("li.active")?.scrollIntoView({ block: "nearest" });
}
function showHits() {
  state.hits = find(page.search.value); state.step = -1;
  page.hits.replaceChildren(
    ...state.hits.slice(0, MOST_LISTED).map((hit, at) => make("li", [nodeOf(hit).name, make("span", nodeOf(hit).type)], { onclick: () => { state.step = at; go(); page.hits.hidden = true; } })),
    make("li", state.hits.length ? `${state.hits.length} found` : "nothing found", { className: "more" }));
  page.hits.hidden = !page.search.value.trim();
  showSteps();
  state.panes.forEach(pane => pane.redraw());
}
export function listenToSearch() {
  page.search.addEventListener("input", showHits);
  page.search.addEventListener("focus", () => { page.hits.hidden = !page.search.value.trim(); });
  page.search.addEventListener("keydown", event => {
    if (event.key === "Enter") stepTo(event.shiftKey ? -1 : 1);
    else if (event.key === "ArrowDown") stepTo(1);
    else if (event.key === "ArrowUp") stepTo(-1);
    else if (event.key === "Escape") { page.search.value = ""; showHits(); page.search.blur(); } else return;
    event.preventDefault();
  });
  document.getElementById("next").addEventListener("click", () => stepTo(1));
  document.getElementById("previous").addEventListener("click", () => stepTo(-1));
  addEventListener("pointerdown", event => { if (!event.target.closest(".search")) page.hits.hidden = true; });
}
