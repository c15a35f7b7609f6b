import { canvas, groupOf, hits, search, state, view } from "./data.mjs";
import { boxOf } from "./scene.mjs";
import { HEIGHT, ROW } from "./layout.mjs";
import { readColours, redraw } from "./drawing.mjs";
import { toggle } from "./folding.mjs";
import { clear, select } from "./card.mjs";

// ---- moving -----------------------------------------------------------------------------------------------------
export function fit() {
  const b = state.scene.bounds, pad = 30, width = canvas.clientWidth, height = canvas.clientHeight;
  const whole = Math.min((width - 2 * pad) / (b.right - b.left), (height - 2 * pad) / (b.bottom - b.top));
  view.zoom = Math.min(Math.max(whole, 0.01), 1.4);
  view.x = width / 2 - view.zoom * (b.left + b.right) / 2;
  view.y = height / 2 - view.zoom * (b.top + b.bottom) / 2;
  redraw();
}
export function start() {
  fit();
  // A tall graph shown whole is unreadable: begin at its top instead.
  if (view.zoom < 0.3) {
    view.zoom = 0.7;
    const first = state.scene.boxes.filter(box => !box.aside).sort((a, b) => a.y - b.y)[0] || state.scene.boxes[0];
    view.x = canvas.clientWidth / 2 - view.zoom * first.x; view.y = 60 - view.zoom * Math.max(first.y - ROW, state.scene.bounds.top); redraw();
  }
}
function zoomAt(x, y, factor) {
  const zoom = Math.min(Math.max(view.zoom * factor, 0.01), 4);
  view.x = x - (x - view.x) * zoom / view.zoom; view.y = y - (y - view.y) * zoom / view.zoom; view.zoom = zoom; redraw();
}
export function centre(index) {
  const box = state.scene.byId.get(boxOf(index));
  if (view.zoom < 0.5) view.zoom = 0.9;
  view.x = canvas.clientWidth / 2 - view.zoom * box.x; view.y = canvas.clientHeight / 2 - view.zoom * (box.y + HEIGHT / 2); redraw();
}
const boxAt = (x, y) => {
  const gx = (x - view.x) / view.zoom, gy = (y - view.y) / view.zoom;
  return state.scene.boxes.find(box => Math.abs(gx - box.x) <= box.width / 2 && gy >= box.y && gy <= box.y + HEIGHT);
};
let drag = null;
canvas.addEventListener("pointerdown", event => { drag = { x: event.offsetX, y: event.offsetY, vx: view.x, vy: view.y, moved: false }; canvas.setPointerCapture(event.pointerId); canvas.classList.add("dragging"); });
canvas.addEventListener("pointermove", event => {
  if (!drag) { canvas.style.cursor = boxAt(event.offsetX, event.offsetY) ? "pointer" : ""; return; }
  if (Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > 4) drag.moved = true;
  if (drag.moved) { view.x = drag.vx + event.offsetX - drag.x; view.y = drag.vy + event.offsetY - drag.y; redraw(); }
});
canvas.addEventListener("pointerup", event => {
  canvas.classList.remove("dragging");
  if (drag && !drag.moved) { const box = boxAt(event.offsetX, event.offsetY); box ? select(box.node, box.group) : clear(); }
  drag = null;
});
canvas.addEventListener("dblclick", event => { const box = boxAt(event.offsetX, event.offsetY); if (box && groupOf.has(box.node)) toggle(groupOf.get(box.node)); });
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  zoomAt(event.offsetX, event.offsetY, Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)));
}, { passive: false });
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
addEventListener("keydown", event => {
  if (event.target === search) { if (event.key === "Escape") { search.blur(); hits.hidden = true; } return; }
  if (event.target.tagName === "INPUT") return;
  if (event.key === "/") { event.preventDefault(); search.focus(); }
  else if (event.key === "f") fit();
  else if (event.key === "Escape") clear();
  else if (event.key === "+" || event.key === "=") zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, 1.25);
  else if (event.key === "-") zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, 0.8);
});
