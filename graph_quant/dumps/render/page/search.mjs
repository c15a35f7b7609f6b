import { hits, nodes, search } from "./data.mjs";
import { make, reveal } from "./card.mjs";

// ---- search -----------------------------------------------------------------------------------------------------
const MOST_HITS = 50;
const haystack = nodes.map(node => [node.name, node.type, ...node.outputs.map(output => output.type), ...node.source.map(pair => pair[1])].join("\n").toLowerCase());
export function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = nodes.map((_, index) => index).filter(index => words.every(word => haystack[index].includes(word)));
  const exact = text.trim().toLowerCase();
  return found.sort((a, b) => (nodes[b].name.toLowerCase() === exact) - (nodes[a].name.toLowerCase() === exact));
}
let active = 0;
function showHits() {
  const found = find(search.value); active = 0;
  hits.replaceChildren(...found.slice(0, MOST_HITS).map((index, at) => make("li", [nodes[index].name, make("span", nodes[index].type)], { className: at ? "" : "active", onclick: () => { hits.hidden = true; reveal(index); } })));
  hits.append(make("li", found.length ? `${found.length} found` : "nothing found", { className: "more" }));
  hits.hidden = !search.value.trim();
}
search.addEventListener("input", showHits);
search.addEventListener("focus", showHits);
search.addEventListener("keydown", event => {
  const items = [...hits.querySelectorAll("li:not(.more)")];
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    items[active]?.classList.remove("active");
    active = Math.min(Math.max(active + (event.key === "ArrowDown" ? 1 : -1), 0), items.length - 1);
    items[active]?.classList.add("active"); items[active]?.scrollIntoView({ block: "nearest" });
  } else if (event.key === "Enter") { items[active]?.click(); search.blur(); }
});
addEventListener("pointerdown", event => { if (!event.target.closest(".search")) hits.hidden = true; });
