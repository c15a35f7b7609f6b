// ---- a pane: one graph, what of it is open, and where one looks ------------------------------------------------
import { isDiff, page, state } from "./data.mjs";
import { make } from "./elements.mjs";
import { groupId, nodeId } from "./boxes.mjs";
import { heat, showLegend } from "./colours.mjs";
import { drawScene } from "./drawing.mjs";
import { buildScene, HEADER } from "./scene.mjs";
import { drawMap, renderMap } from "./minimap.mjs";

const SMALLEST = 0.004, LARGEST = 4;

export class Pane {
  constructor(side, link) {
    Object.assign(this, { side, link, open: new Set([0]), shapes: false, view: { x: 0, y: 0, zoom: 1 }, selected: null, boxes: new Map(), frame: 0 });
    this.canvas = make("canvas", null, { className: "graph", tabIndex: 0 });
    this.canvas.setAttribute("aria-label", `${side.name}: drag to move, scroll to zoom, arrow keys go from node to node, Enter opens or closes a group.`);
    this.map = make("canvas", null, { className: "map", width: 180, height: 130 });
    this.map.setAttribute("aria-hidden", "true");
    this.section = make("section", [isDiff ? make("h2", side.name) : null, this.canvas, this.map], { className: "pane" });
    page.panes.append(this.section);
    this.pen = this.canvas.getContext("2d");
  }
  box(id, makeBox) {
    if (!this.boxes.has(id)) this.boxes.set(id, makeBox());
    return this.boxes.get(id);
  }
  // The box or frame that stands for a node or a group.
  idOf(node) {
    let shown = nodeId(node.index);
    for (let at = node.group; at !== null; at = this.side.groups[at].parent) if (!this.open.has(at)) shown = groupId(at);
    return shown;
  }
  chosenId() { return this.selected === null ? null : this.selected.group ? groupId(this.selected.group.index) : this.idOf(this.selected.node); }
  // What is found, by the box it stands in, and how much of it.
  found() {
    if (this.counts?.hits !== state.hits || this.counts.scene !== this.scene) {
      const byBox = new Map();
      for (const hit of state.hits) if (hit.pane === this) { const id = this.idOf(this.side.nodes[hit.node]); byBox.set(id, (byBox.get(id) || 0) + 1); }
      this.counts = { hits: state.hits, scene: this.scene, byBox };
    }
    return this.counts.byBox;
  }
  relayout() { this.scene = buildScene(this); heat(this); showLegend(); renderMap(this); this.redraw(); }
  redraw() { this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); }); }

  draw() {
    const { canvas, pen, view } = this, ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.setTransform(ratio * view.zoom, 0, 0, ratio * view.zoom, ratio * view.x, ratio * view.y);
    drawScene(this, pen, view.zoom, { left: -view.x / view.zoom, top: -view.y / view.zoom, right: (width - view.x) / view.zoom, bottom: (height - view.y) / view.zoom });
    drawMap(this);
  }
  fit() {
    const { bounds } = this.scene, { view, canvas } = this, pad = 24;
    const whole = Math.min((canvas.clientWidth - 2 * pad) / (bounds.right - bounds.left), (canvas.clientHeight - 2 * pad) / (bounds.bottom - bounds.top));
    view.zoom = Math.min(Math.max(whole, SMALLEST), 1.1);
    view.x = canvas.clientWidth / 2 - view.zoom * (bounds.left + bounds.right) / 2;
    view.y = canvas.clientHeight / 2 - view.zoom * (bounds.top + bounds.bottom) / 2;
    this.redraw();
  }
  start() {
    this.fit();
    // A tall graph shown whole is unreadable: begin at its top instead.
    if (this.view.zoom >= 0.45) return;
    this.view.zoom = 0.8;
    const first = [...this.scene.boxes].sort((a, b) => a.top - b.top || a.left - b.left)[0];
    if (first) { this.view.x = this.canvas.clientWidth / 2 - this.view.zoom * (first.left + first.width / 2); this.view.y = 40 - this.view.zoom * first.top; }
    this.redraw();
  }
  zoomAt(x, y, factor) {
    const { view } = this, zoom = Math.min(Math.max(view.zoom * factor, SMALLEST), LARGEST);
    view.x = x - (x - view.x) * zoom / view.zoom; view.y = y - (y - view.y) * zoom / view.zoom; view.zoom = zoom;
    this.redraw();
  }
  centre(id) {
    const box = this.scene.byId.get(id), { view, canvas } = this;
    if (!box) return;
    if (view.zoom < 0.5) view.zoom = 0.9;
    const height = box.isFrame ? Math.min(box.height, canvas.clientHeight / view.zoom - 80) : box.height;
    view.x = canvas.clientWidth / 2 - view.zoom * (box.left + box.width / 2); view.y = canvas.clientHeight / 2 - view.zoom * (box.top + height / 2);
    this.redraw();
  }
  at(x, y) {
    const { view, scene } = this, left = (x - view.x) / view.zoom, top = (y - view.y) / view.zoom;
    const holds = box => left >= box.left && left <= box.left + box.width && top >= box.top && top <= box.top + (box.isFrame ? HEADER : box.height);
    const box = scene.boxes.find(holds) || scene.frames.find(frame => frame.group.parent !== null && holds(frame));
    // The sign in front of a group's name opens and closes it.
    return box && { box, isSign: Boolean(box.group) && left < box.left + 28 && top < box.top + HEADER };
  }
  // Open or close a group where it stands: its corner stays in its place on the screen.
  toggle(group) {
    const before = this.scene.byId.get(groupId(group.index)), { view } = this;
    if (this.open.has(group.index)) this.open.delete(group.index); else this.open.add(group.index);
    const corner = before && { x: view.x + view.zoom * before.left, y: view.y + view.zoom * before.top };
    this.relayout();
    const after = this.scene.byId.get(groupId(group.index));
    if (corner && after) { view.x = corner.x - view.zoom * after.left; view.y = corner.y - view.zoom * after.top; }
    this.redraw();
  }
  // Open all groups around a node, so that it is drawn itself; a shape shows the shapes.
  expose(node) {
    const closed = [];
    for (let at = node.group; at !== null; at = this.side.groups[at].parent) if (!this.open.has(at)) closed.push(at);
    const asksShapes = node.isShape && !this.shapes;
    if (!closed.length && !asksShapes) return;
    closed.forEach(at => this.open.add(at));
    if (asksShapes) { this.shapes = true; page.shapes.setAttribute("aria-pressed", "true"); }
    this.relayout();
  }
  openAll(all) {
    this.open = new Set(all ? this.side.groups.keys() : [0]);
    this.relayout(); this.start();
  }
}
