// ---- a pane: one graph, its open groups, and the view -------------------------------------------------------------
import { isDiff, page, state } from "./data.mjs";
import { make } from "./elements.mjs";
import { groupId, nodeId } from "./boxes.mjs";
import { heat, showLegend } from "./colours.mjs";
import { drawScene } from "./drawing.mjs";
import { buildScene, HEADER } from "./scene.mjs";
import { drawMap, renderMap } from "./minimap.mjs";

const SMALLEST = 0.004, LARGEST = 4, LARGE = 2000, MOST_OPENED = 12;

export class Pane {
  constructor(side, link) {
    Object.assign(this, { side, link, open: new Set([0]), shapes: false, view: { x: 0, y: 0, zoom: 1 }, selected: null, boxes: new Map(), frame: 0, sheet: null });
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
  // The id of the box that shows a node: itself, or the outermost closed group around it.
  idOf(node) {
    let shown = nodeId(node.index);
    for (let at = node.group; at !== null; at = this.side.groups[at].parent) if (!this.open.has(at)) shown = groupId(at);
    return shown;
  }
  chosenId() { return this.selected === null ? null : this.selected.group ? groupId(this.selected.group.index) : this.idOf(this.selected.node); }
  // The number of matches of the search by box.
  countMatches() {
    if (this.counts?.hits !== state.hits || this.counts.scene !== this.scene) {
      const byBox = new Map();
      for (const hit of state.hits) if (hit.pane === this) { const id = this.idOf(this.side.nodes[hit.node]); byBox.set(id, (byBox.get(id) || 0) + 1); }
      this.counts = { hits: state.hits, scene: this.scene, byBox };
    }
    return this.counts.byBox;
  }
  relayout() { this.sheet = null; this.scene = buildScene(this); heat(this); showLegend(); renderMap(this); this.redraw(); }
  redraw() { this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); }); }

  draw() {
    const { canvas, pen, view } = this, ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    if (this.sheet && (Math.abs(view.x - this.sheet.x) > width / 2 || Math.abs(view.y - this.sheet.y) > height / 2)) this.hold();
    if (this.sheet) {
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(this.sheet.paper, Math.round((view.x - this.sheet.x - width / 2) * ratio), Math.round((view.y - this.sheet.y - height / 2) * ratio));
    } else this.paint(pen, width, height, view.x, view.y);
    drawMap(this);
  }
  paint(pen, width, height, x, y) {
    const ratio = devicePixelRatio || 1, { zoom } = this.view;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.setTransform(ratio * zoom, 0, 0, ratio * zoom, ratio * x, ratio * y);
    drawScene(this, pen, zoom, { left: -x / zoom, top: -y / zoom, right: (width - x) / zoom, bottom: (height - y) / zoom });
  }
  // While a large drawing is dragged, a bitmap of it, half a screen larger on each side, is moved instead of redrawing.
  hold() {
    const { canvas, scene, view } = this, ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (scene.boxes.length + scene.edges.length < LARGE) return;
    const paper = Object.assign(document.createElement("canvas"), { width: Math.round(2 * width * ratio), height: Math.round(2 * height * ratio) });
    this.paint(paper.getContext("2d"), 2 * width, 2 * height, view.x + width / 2, view.y + height / 2);
    this.sheet = { paper, x: view.x, y: view.y };
  }
  release() { this.sheet = null; this.redraw(); }
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
    // A tall graph is unreadable as a whole: start at its top.
    if (this.view.zoom >= 0.45) return;
    this.view.zoom = 0.8;
    const first = [...this.scene.boxes].sort((a, b) => a.top - b.top || a.left - b.left)[0];
    if (first) { this.view.x = this.canvas.clientWidth / 2 - this.view.zoom * (first.left + first.width / 2); this.view.y = 40 - this.view.zoom * first.top; }
    this.redraw();
  }
  zoomAt(x, y, factor) {
    const { view } = this, zoom = Math.min(Math.max(view.zoom * factor, SMALLEST), LARGEST);
    view.x = x - (x - view.x) * zoom / view.zoom; view.y = y - (y - view.y) * zoom / view.zoom; view.zoom = zoom; this.sheet = null;
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
    // The sign before a group's name opens and closes it.
    return box && { box, isSign: Boolean(box.group) && left < box.left + 28 && top < box.top + HEADER };
  }
  // Open or close a group; its corner stays at the same position on the screen.
  toggle(group) {
    const before = this.scene.byId.get(groupId(group.index)), { view } = this;
    if (this.open.has(group.index)) this.open.delete(group.index); else this.open.add(group.index);
    const corner = before && { x: view.x + view.zoom * before.left, y: view.y + view.zoom * before.top };
    this.relayout();
    const after = this.scene.byId.get(groupId(group.index));
    if (corner && after) { view.x = corner.x - view.zoom * after.left; view.y = corner.y - view.zoom * after.top; }
    this.redraw();
  }
  // Open all groups around a node, so that it is drawn; a node that computes shapes also shows the shapes.
  expose(node) {
    const closed = [];
    for (let at = node.group; at !== null; at = this.side.groups[at].parent) if (!this.open.has(at)) closed.push(at);
    const needsShapes = node.isShape && !this.shapes;
    if (!closed.length && !needsShapes) return;
    closed.forEach(at => this.open.add(at));
    if (needsShapes) { this.shapes = true; page.shapes.setAttribute("aria-pressed", "true"); }
    this.relayout();
  }
  // Open the group that holds most of the graph, and the one that holds most of that, while few boxes are drawn.
  openLargest() {
    const { groups, nodes } = this.side, shown = nodes.map(node => !node.inline && !node.isShape);
    const count = at => groups[at].members.filter(member => shown[member]).length + groups[at].children.reduce((sum, child) => sum + count(child), 0);
    let at = 0, total = count(0);
    while (at !== undefined) {
      const parent = groups[at], largest = parent.children.find(child => 2 * count(child) > total);
      const drawn = largest === undefined ? 0 : groups[largest].members.filter(member => shown[member]).length + groups[largest].children.length;
      if (!drawn || drawn > MOST_OPENED || !groups[largest].children.length) return;
      this.open.add(largest); at = largest; total = count(largest);
    }
  }
  openAll(all) {
    this.open = new Set(all ? this.side.groups.keys() : [0]);
    this.relayout(); this.start();
  }
}
