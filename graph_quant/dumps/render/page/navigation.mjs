// ---- pointers and keys -----------------------------------------------------------------------------------------
import { page, state } from "./data.mjs";
import { choose, clear } from "./selection.mjs";
import { stepTo } from "./search.mjs";

export function listenToPane(pane) {
  const { canvas, view } = pane;
  let drag = null;
  canvas.addEventListener("pointerdown", event => {
    drag = { x: event.offsetX, y: event.offsetY, fromX: view.x, fromY: view.y, moved: false };
    canvas.setPointerCapture(event.pointerId); canvas.classList.add("dragging"); state.active = pane;
  });
  canvas.addEventListener("pointermove", event => {
    if (!drag) { canvas.style.cursor = pane.at(event.offsetX, event.offsetY) ? "pointer" : ""; return; }
    if (!drag.moved && Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > 4) { drag.moved = true; pane.hold(); }
    if (drag.moved) { view.x = drag.fromX + event.offsetX - drag.x; view.y = drag.fromY + event.offsetY - drag.y; pane.redraw(); }
  });
  canvas.addEventListener("pointerup", event => {
    canvas.classList.remove("dragging");
    if (drag?.moved) pane.release(); else if (drag) click(pane, pane.at(event.offsetX, event.offsetY));
    drag = null;
  });
  canvas.addEventListener("dblclick", event => { const hit = pane.at(event.offsetX, event.offsetY); if (hit?.box.group && !hit.isSign) pane.toggle(hit.box.group); });
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    pane.zoomAt(event.offsetX, event.offsetY, Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)));
  }, { passive: false });
  canvas.addEventListener("keydown", event => { if (handleKey(pane, event.key)) event.preventDefault(); });
}
function click(pane, hit) {
  if (!hit) { clear(); return; }
  if (hit.isSign) pane.toggle(hit.box.group);
  choose(pane, hit.box.group ? { group: hit.box.group } : { node: hit.box.node });
}

// Arrow keys follow edges, and move between boxes of a row; Enter opens and closes.
function handleKey(pane, key) {
  const { scene } = pane, chosen = scene.byId.get(pane.chosenId());
  if (key === "Enter") { if (chosen?.group) pane.toggle(chosen.group); return Boolean(chosen?.group); }
  if (!["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight"].includes(key)) return false;
  const next = chosen ? neighbour(scene, chosen, key) : [...scene.boxes].sort((a, b) => a.top - b.top || a.left - b.left)[0];
  if (next) { choose(pane, next.group ? { group: next.group } : { node: next.node }); pane.centre(next.id); }
  return true;
}
function neighbour(scene, chosen, key) {
  const isDown = key === "ArrowDown", middle = box => box.left + box.width / 2;
  if (isDown || key === "ArrowUp") {
    const ids = scene.edges.flatMap(edge => isDown ? edge.key === chosen.id ? [...edge.targets] : [] : edge.targets.has(chosen.id) ? [edge.key] : []);
    const near = [...new Set(ids)].map(id => scene.byId.get(id)).filter(box => box && box !== chosen);
    return near.sort((a, b) => Math.abs(middle(a) - middle(chosen)) - Math.abs(middle(b) - middle(chosen)))[0];
  }
  const sign = key === "ArrowRight" ? 1 : -1;
  const beside = scene.boxes.filter(box => sign * (middle(box) - middle(chosen)) > 1 && box.top < chosen.top + chosen.height && box.top + box.height > chosen.top);
  return beside.sort((a, b) => Math.abs(middle(a) - middle(chosen)) - Math.abs(middle(b) - middle(chosen)))[0];
}

export function listenToKeys() {
  addEventListener("resize", () => state.panes.forEach(pane => pane.redraw()));
  addEventListener("keydown", event => {
    if (["INPUT", "SELECT"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const pane = state.active, zoom = factor => pane.zoomAt(pane.canvas.clientWidth / 2, pane.canvas.clientHeight / 2, factor);
    const keys = { "/": () => page.search.focus(), f: () => pane.fit(), Escape: clear, "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), n: () => stepTo(1), N: () => stepTo(-1) };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
}
