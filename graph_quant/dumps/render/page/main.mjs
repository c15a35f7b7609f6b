import { data, isDiff, page, state } from "./data.mjs";
import { make } from "./elements.mjs";
import { MODES, heat, setTheme, showLegend, usedModes } from "./colours.mjs";
import { listenToMap, renderMap } from "./minimap.mjs";
import { listenToKeys, listenToPane } from "./navigation.mjs";
import { listenToExport, pngOf, svgOf } from "./exporting.mjs";
import { find, listenToSearch } from "./search.mjs";
import { followAddress } from "./selection.mjs";
import { summaryCard } from "./card.mjs";
import { makeSide, mark } from "./side.mjs";
import { Pane } from "./pane.mjs";

function recolour() { state.panes.forEach(pane => { heat(pane); renderMap(pane); pane.redraw(); }); showLegend(); }

function listenToButtons() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("fit").addEventListener("click", () => state.panes.forEach(pane => pane.fit()));
  document.getElementById("theme").addEventListener("click", () => { setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); recolour(); });
  dark.addEventListener("change", () => { setTheme(dark.matches ? "dark" : "light"); recolour(); });
  page.fold.addEventListener("click", () => {
    const all = page.fold.textContent === "Open all";
    state.panes.forEach(pane => pane.openAll(all));
    page.fold.textContent = all ? "Close all" : "Open all";
  });
  page.shapes.addEventListener("click", () => {
    const isOn = page.shapes.getAttribute("aria-pressed") !== "true";
    page.shapes.setAttribute("aria-pressed", String(isOn));
    state.panes.forEach(pane => { pane.shapes = isOn; pane.relayout(); });
  });
  page.colour.replaceChildren(...usedModes().map(mode => make("option", `colour: ${MODES[mode].label}`, { value: mode })));
  page.colour.hidden = page.colour.length < 2;
  page.colour.addEventListener("change", () => { state.colour = page.colour.value; recolour(); });
}

document.getElementById("title").textContent = data.title;
document.title = data.title;
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
data.sides.forEach((raw, at) => state.panes.push(new Pane(makeSide(raw), isDiff && at === 0 ? "before" : "node")));
(data.changes || []).forEach(change => change.nodes.forEach((index, at) => { if (index !== null) mark(state.panes[at].side, index, change.kind, change.details); }));
state.active = state.panes[state.panes.length - 1];
listenToButtons(); listenToKeys(); listenToSearch(); listenToExport();
// Colour by time if there are times.
if (page.colour.length > 1) page.colour.value = state.colour = page.colour.options[1].value;
for (const pane of state.panes) { listenToPane(pane); listenToMap(pane); if (!isDiff) pane.openLargest(); pane.relayout(); pane.start(); }
page.fold.hidden = state.panes.every(pane => pane.side.groups.length < 2);
summaryCard(); followAddress();
addEventListener("hashchange", followAddress);

// For tests and the console.
const paneOf = at => state.panes[at ?? state.panes.length - 1];
window.graphQuant = {
  nodes: data.sides[data.sides.length - 1].nodes.length, find: text => find(text).map(hit => hit.pane.side.nodes[hit.node].name),
  drawn: at => paneOf(at).scene.boxes.length, titles: at => paneOf(at).scene.boxes.map(box => box.lines[0][0]), openAll: () => state.panes.forEach(pane => pane.openAll(true)),
  where: (name, at) => {
    const pane = paneOf(at), { side, scene, view } = pane, node = side.byKey.get(name), group = side.groups.find(({ label, index }) => label === name && scene.byId.has(-1 - index));
    const box = node !== undefined ? scene.byId.get(pane.idOf(side.nodes[node])) : scene.byId.get(-1 - group.index);
    return { x: view.x + view.zoom * (box.left + box.width / 2), y: view.y + view.zoom * (box.top + (box.isFrame ? 15 : box.height / 2)) };
  },
  panes: state.panes, svg: at => svgOf(paneOf(at)), png: at => pngOf(paneOf(at)),
};
