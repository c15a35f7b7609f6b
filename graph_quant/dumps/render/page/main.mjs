import { data, folded, nodes, state, view } from "./data.mjs";
import { boxOf } from "./scene.mjs";
import { HEIGHT } from "./layout.mjs";
import { readColours } from "./drawing.mjs";
import { start } from "./moving.mjs";
import { relayout } from "./folding.mjs";
import { clear } from "./card.mjs";
import { find } from "./search.mjs";

document.getElementById("title").textContent = data.title;
document.title = data.title;
readColours(); relayout(); clear(); start();
// For tests and for the console: where a node is on the screen, and what is drawn.
window.graphQuant = {
  nodes: nodes.length, drawn: () => state.scene.boxes.length, find, unfold: () => { folded.clear(); relayout(); start(); },
  where: name => { const box = state.scene.byId.get(boxOf(nodes.findIndex(node => node.name === name))); return { x: view.x + view.zoom * box.x, y: view.y + view.zoom * (box.y + HEIGHT / 2) }; },
};
