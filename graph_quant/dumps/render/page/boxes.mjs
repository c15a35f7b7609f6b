// ---- boxes: the drawn rectangles of nodes and of closed groups ----------------------------------------------------
import { FONTS } from "./data.mjs";
import { isQuantised } from "./side.mjs";

const LINE = 14, NARROWEST = 90, WIDEST = 300, MOST_LINES = 4;
export const measuring = document.createElement("canvas").getContext("2d");

export const nodeId = index => index, groupId = index => -1 - index;

export function clip(text, width, font) {
  measuring.font = font;
  if (measuring.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) { const middle = (low + high + 1) >> 1; if (measuring.measureText(text.slice(0, middle) + "…").width <= width) low = middle; else high = middle - 1; }
  return text.slice(0, low) + "…";
}
function fitText(box) {
  box.width = NARROWEST;
  for (const [text, font] of box.lines) { measuring.font = font; box.width = Math.max(box.width, Math.min(measuring.measureText(text).width + 28, WIDEST)); }
  box.lines = box.lines.map(([text, font, colour]) => [clip(text, box.width - 22, font), font, colour]);
  box.height = 11 + LINE * box.lines.length;
  return box;
}

// A weight or constant as shown inside the node that reads it: its name, or its value.
export function weightText(side, input) {
  const from = side.nodes[input.from], value = from.value && from.value.length <= 24 && !from.value.endsWith("bytes") ? from.value : "";
  return `${input.name} = ${value || `${from.weight || from.name} ${input.type}`}`;
}

export function nodeBox(side, node) {
  const weights = node.inputs.filter(input => side.nodes[input.from].inline && !side.nodes[input.from].isShape && !input.control);
  const lines = [[node.type, FONTS.title, "ink"], [node.name, FONTS.label, "soft"]];
  const types = node.outputs.map(output => output[1]).filter(Boolean).join("  ");
  if (types) lines.push([types, FONTS.detail, "colour"]);
  weights.slice(0, MOST_LINES).forEach(input => lines.push([weightText(side, input), FONTS.detail, isQuantised(input.type) ? "quantised" : "soft"]));
  if (weights.length > MOST_LINES) lines.push([`… ${weights.length - MOST_LINES} more`, FONTS.detail, "soft"]);
  return fitText({ id: nodeId(node.index), node, group: null, role: node.role, mark: node.mark || "", order: node.index, lines });
}

export const title = group => `${group.label}${group.times ? ` ×${group.times}` : ""}`;
export const countText = group => `${group.nodes} node${group.nodes === 1 ? "" : "s"}${group.quantised ? `, ${group.quantised} quantised` : ""}`;
export const markText = group => Object.entries(group.marks).map(([kind, count]) => `${count} ${kind}`).join(", ");
const dominantMark = marks => ["changed", "added", "removed"].find(kind => marks[kind]) || "";

export function groupBox(side, group) {
  const lines = [[`⊞ ${title(group)}`, FONTS.title, "ink"], [countText(group), FONTS.label, group.quantised ? "quantised" : "soft"]];
  if (markText(group)) lines.push([markText(group), FONTS.detail, "colour"]);
  return fitText({ id: groupId(group.index), node: null, group, role: "group", mark: dominantMark(group.marks), order: group.order, lines });
}
