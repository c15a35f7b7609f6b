// ---- one graph: its nodes, the tree of its groups, and the totals of each group -----------------------------------
import { data } from "./data.mjs";

const EMPTY = [];
export const isQuantised = type => data.quantised.includes(type.slice(0, Math.max(type.indexOf("["), 0)));

function setDefaults(node, index) {
  node.index = index;
  for (const key of ["inputs", "outputs", "remarks", "source"]) node[key] ??= EMPTY;
  node.attributes ??= {};
  node.isShape = node.shape !== undefined;
}

function sumGroups(side) {
  for (const group of side.groups) Object.assign(group, { nodes: 0, quantised: 0, bytes: 0, flops: 0, measured: 0, least: 0, hasTime: false, marks: {}, order: Infinity, shown: 0 });
  for (const node of side.nodes) {
    const time = node.time || {};
    for (let at = node.group; at !== null; at = side.groups[at].parent) {
      const group = side.groups[at];
      group.nodes++; group.quantised += node.role === "quantised";
      group.bytes = add(group.bytes, node.bytes); group.flops = add(group.flops, node.flops);
      group.measured += time.measured || 0; group.least += time.least || 0; group.hasTime ||= Boolean(node.time);
      if (!node.inline) group.order = Math.min(group.order, node.index);
    }
  }
}
// A sum; null if a term is an expression or unknown.
const add = (sum, value) => sum === null || typeof value !== "number" ? null : sum + value;

export function makeSide(raw) {
  const side = { name: raw.name, nodes: raw.nodes, groups: raw.groups, readers: raw.nodes.map(() => []) };
  side.nodes.forEach(setDefaults);
  side.groups.forEach((group, index) => { group.index = index; group.depth = group.parent === null ? 0 : side.groups[group.parent].depth + 1; group.children = []; group.members = []; });
  side.groups.forEach(group => { if (group.parent !== null) side.groups[group.parent].children.push(group.index); });
  side.nodes.forEach(node => {
    side.groups[node.group].members.push(node.index);
    node.inputs.forEach(input => side.readers[input.from].push({ to: node.index, input }));
  });
  sumGroups(side);
  const seen = new Map();
  side.nodes.forEach(node => seen.set(node.name, (seen.get(node.name) || 0) + 1));
  // A name that occurs in several graphs is prefixed with its graph.
  side.nodes.forEach(node => { node.key = seen.get(node.name) > 1 && node.graph ? `${node.graph}/${node.name}` : node.name; });
  side.byKey = new Map(side.nodes.map(node => [node.key, node.index]));
  return side;
}

export function mark(side, index, kind, details) {
  const node = side.nodes[index];
  node.mark = kind; node.changes = details;
  for (let at = node.group; at !== null; at = side.groups[at].parent) side.groups[at].marks[kind] = (side.groups[at].marks[kind] || 0) + 1;
}

// All nodes of a group and of the groups within it.
export function* within(side, index) {
  yield* side.groups[index].members;
  for (const child of side.groups[index].children) yield* within(side, child);
}
