// ---- the scene: boxes, frames of open groups, and edges; each open group is laid out separately -------------------
import { FONTS } from "./data.mjs";
import { isQuantised } from "./side.mjs";
import { groupBox, groupId, nodeBox, nodeId, measuring, title } from "./boxes.mjs";
import { layered } from "./layered.mjs";

export const HEADER = 30;
const PADDING = 16;

const isShown = (pane, node) => !node.inline && (pane.shapes || !node.isShape);

// For each group the outermost closed group around it, or null.
function closedAncestors(pane) {
  const closed = [];
  for (const group of pane.side.groups) {
    const above = group.parent === null ? null : closed[group.parent];
    closed.push(above !== null ? above : pane.open.has(group.index) ? null : group.index);
  }
  return closed;
}

function countShown(pane) {
  for (const group of pane.side.groups) group.shown = 0;
  for (const node of pane.side.nodes) if (isShown(pane, node)) for (let at = node.group; at !== null; at = pane.side.groups[at].parent) pane.side.groups[at].shown++;
}

class Frame {
  constructor(pane, group) {
    Object.assign(this, { id: groupId(group.index), group, isFrame: true, items: new Map(), edges: new Map(), ports: { in: new Map(), out: new Map() }, order: group.order });
    const { side } = pane;
    for (const member of group.members) if (isShown(pane, side.nodes[member])) this.items.set(nodeId(member), pane.box(nodeId(member), () => nodeBox(side, side.nodes[member])));
  }
  portFor(side, { key, order }) {
    const ports = this.ports[side];
    if (!ports.has(key)) ports.set(key, { port: side, key, width: 8, height: 0, order });
    return ports.get(key);
  }
  join(from, to, link) {
    const id = `${from.port || ""}${from.id ?? from.key} ${to.port || ""}${to.id ?? to.key} ${link.key}`;
    let edge = this.edges.get(id);
    if (!edge) { edge = { from, to, key: link.key, targets: new Set(), types: new Set(), count: 0, control: true, quantised: false, isShape: true }; this.edges.set(id, edge); }
    edge.targets.add(link.target); edge.types.add(link.type); edge.count++;
    edge.control &&= link.control; edge.quantised ||= link.quantised; edge.isShape &&= link.isShape;
  }
  layout() {
    const items = [...this.items.values(), ...this.ports.in.values(), ...this.ports.out.values()], edges = [...this.edges.values()];
    // Edges of an open group end at its ports.
    for (const edge of edges) {
      edge.leaves = edge.from.isFrame ? edge.from.portAt("out", edge.key) : 0;
      edge.enters = edge.to.isFrame ? edge.to.portAt("in", edge.key) : 0;
    }
    const inner = layered(items, edges);
    measuring.font = FONTS.title;
    this.width = Math.max(inner.width + 2 * PADDING, measuring.measureText(title(this.group)).width + 60);
    this.height = inner.height + HEADER + PADDING;
    this.inset = (this.width - inner.width) / 2;
    for (const edge of edges) {
      if (edge.from.port) edge.points[1] = -HEADER;
      if (edge.to.port) edge.points[edge.points.length - 1] = inner.height + PADDING;
    }
  }
  // The x coordinate of a port, relative to the middle of the frame.
  portAt(side, key) { const port = this.ports[side].get(key); return port ? port.x + this.inset - this.width / 2 : 0; }
}

function connect(pane, frames, hidden) {
  const { side } = pane, { groups, nodes } = side;
  const boxOf = node => { const closed = hidden[node.group]; return closed === null ? { id: nodeId(node.index), within: node.group } : { id: groupId(closed), within: groups[closed].parent }; };
  for (const node of nodes) {
    if (!isShown(pane, node)) continue;
    const to = boxOf(node);
    for (const input of node.inputs) {
      const source = nodes[input.from];
      if (!isShown(pane, source)) continue;
      const from = boxOf(source);
      if (from.id === to.id) continue;
      const link = { key: from.id, order: source.index, target: to.id, type: input.type, control: Boolean(input.control), quantised: isQuantised(input.type), isShape: source.isShape };
      let above = from.within, below = to.within, start = frames.get(above).items.get(from.id), end = frames.get(below).items.get(to.id);
      while (above !== below) {
        if (groups[above].depth >= groups[below].depth) { const frame = frames.get(above); frame.join(start, frame.portFor("out", link), link); start = frame; above = groups[above].parent; }
        else { const frame = frames.get(below); frame.join(frame.portFor("in", link), end, link); end = frame; below = groups[below].parent; }
      }
      frames.get(above).join(start, end, link);
    }
  }
}

function flatten(scene, frame, left, top) {
  Object.assign(frame, { left, top });
  scene.frames.push(frame); scene.byId.set(frame.id, frame);
  const x = left + frame.inset, y = top + HEADER;
  for (const item of frame.items.values()) {
    if (item.isFrame) { flatten(scene, item, x + item.x - item.width / 2, y + item.y); continue; }
    item.left = x + item.x - item.width / 2; item.top = y + item.y;
    scene.boxes.push(item); scene.byId.set(item.id, item);
  }
  for (const edge of frame.edges.values()) {
    edge.path = edge.points.map((value, at) => value + (at % 2 ? y : x));
    edge.low = Math.min(edge.path[1], edge.path[edge.path.length - 1]); edge.high = Math.max(edge.path[1], edge.path[edge.path.length - 1]);
    edge.west = Infinity; edge.east = -Infinity;
    for (let at = 0; at < edge.path.length; at += 2) { edge.west = Math.min(edge.west, edge.path[at]); edge.east = Math.max(edge.east, edge.path[at]); }
    scene.edges.push(edge);
  }
}

export function buildScene(pane) {
  const { groups } = pane.side, hidden = closedAncestors(pane), frames = new Map();
  countShown(pane);
  for (const group of groups) {
    if (hidden[group.index] === null) frames.set(group.index, new Frame(pane, group));
  }
  for (const group of groups) {
    if (group.parent === null || !frames.has(group.parent) || !group.shown) continue;
    const item = frames.get(group.index) || pane.box(groupId(group.index), () => groupBox(pane.side, group));
    frames.get(group.parent).items.set(item.id, item);
  }
  connect(pane, frames, hidden);
  for (const frame of [...frames.values()].reverse()) frame.layout();
  const scene = { boxes: [], frames: [], edges: [], byId: new Map() };
  flatten(scene, frames.get(0), 0, 0);
  const root = frames.get(0);
  scene.bounds = { left: 0, top: HEADER, right: root.width, bottom: root.height };
  return scene;
}
