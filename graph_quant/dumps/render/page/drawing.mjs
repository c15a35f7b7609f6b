// ---- drawing, with the pen of a canvas or of an SVG -------------------------------------------------------------
import { FONTS, colours, isDiff, state } from "./data.mjs";
import { colourOf } from "./colours.mjs";
import { title } from "./boxes.mjs";

// Below these zooms text, curves and labels are too small to draw.
const TEXT_FROM = 0.3, CURVES_FROM = 0.16, LABELS_FROM = 0.7, ROUND = 8, BEYOND = 40;
// Styles of edges; all edges of a style are drawn in one stroke.
const STYLES = [
  { name: "faint", colour: "soft", alpha: 0.13, width: 1.2 },
  { name: "shape", colour: "soft", alpha: 0.35, width: 1, dash: [2, 3] },
  { name: "control", colour: "soft", alpha: 0.5, width: 1.2, dash: [5, 4] },
  { name: "plain", colour: "soft", alpha: 0.65, width: 1.3 },
  { name: "quantised", colour: "quantised", alpha: 0.95, width: 2.2 },
  { name: "near", colour: "accent", alpha: 1, width: 2.4 },
];
const styleOf = edge => edge.long ? "faint" : edge.quantised ? "quantised" : edge.control ? "control" : edge.isShape ? "shape" : "plain";

// Parts outside the view are skipped: a dashed line over a thousand screens is slow to draw.
function curve(pen, path, curved, seen) {
  pen.moveTo(path[0], path[1]);
  for (let at = 2; at < path.length; at += 2) {
    const x = path[at - 2], y = path[at - 1], nextX = path[at], nextY = path[at + 1];
    if (Math.max(y, nextY) < seen.top || Math.min(y, nextY) > seen.bottom) pen.moveTo(nextX, nextY);
    else if (Math.abs(x - nextX) < 1 && y < nextY) {
      pen.moveTo(x, Math.max(y, seen.top - BEYOND)); pen.lineTo(nextX, Math.min(nextY, seen.bottom + BEYOND)); pen.moveTo(nextX, nextY);
    } else if (!curved) pen.lineTo(nextX, nextY);
    else { const middle = (y + nextY) / 2; pen.bezierCurveTo(x, middle, nextX, middle, nextX, nextY); }
  }
}

function drawEdges(pane, pen, zoom, seen) {
  const chosen = pane.chosenId(), byStyle = new Map(STYLES.map(style => [style.name, []]));
  for (const edge of pane.scene.edges) {
    if (edge.high < seen.top || edge.low > seen.bottom || edge.east < seen.left || edge.west > seen.right) continue;
    const isNear = chosen !== null && (edge.key === chosen || edge.targets.has(chosen));
    // Too short to be visible, unless selected.
    if (!isNear && (edge.high - edge.low + edge.east - edge.west) * zoom < 5) continue;
    byStyle.get(isNear ? "near" : styleOf(edge)).push(edge);
  }
  const curved = zoom >= CURVES_FROM;
  for (const style of STYLES) {
    const edges = byStyle.get(style.name);
    if (!edges.length) continue;
    pen.strokeStyle = pen.fillStyle = colours[style.colour]; pen.globalAlpha = style.alpha;
    pen.lineWidth = curved ? style.width : Math.min(style.width / zoom, 10); pen.setLineDash(curved && style.dash || []);
    pen.beginPath(); for (const edge of edges) curve(pen, edge.path, curved, seen); pen.stroke();
    pen.setLineDash([]);
    if (zoom >= TEXT_FROM) { pen.beginPath(); for (const edge of edges) if (!edge.to.port) arrow(pen, edge.path); pen.fill(); }
    pen.globalAlpha = 1;
    if (zoom >= LABELS_FROM) for (const edge of edges) label(pen, edge, style.name === "near");
  }
}
function arrow(pen, path) {
  const x = path[path.length - 2], y = path[path.length - 1];
  pen.moveTo(x, y); pen.lineTo(x - 4, y - 7); pen.lineTo(x + 4, y - 7); pen.closePath();
}
// The dtype and sizes, without the storage format, which the card shows.
const untilSizes = type => type.slice(0, type.indexOf("]") + 1) || type;
function label(pen, edge, isNear) {
  if (edge.control || edge.from.port || edge.to.port || (!isNear && (edge.long || edge.to.ins.length > 3))) return;
  const { path } = edge, at = path.length - 4, share = edge.to.ins.length > 1 ? 0.24 : 0.5;
  const x = path[at] + (path[at + 2] - path[at]) * share * share * (3 - 2 * share), y = path[at + 1] + (path[at + 3] - path[at + 1]) * share;
  const text = edge.types.size > 1 ? `${edge.count} tensors` : untilSizes([...edge.types][0]) + (edge.count > 1 ? `  ×${edge.count}` : "");
  pen.font = FONTS.detail; pen.textAlign = "center";
  const wide = text.length * 6.4 + 8;
  pen.fillStyle = colours.ground; pen.globalAlpha = 0.85; pen.fillRect(x - wide / 2, y - 8, wide, 14); pen.globalAlpha = 1;
  pen.fillStyle = isNear ? colours.accent : edge.quantised ? colours.quantised : colours.soft; pen.fillText(text, x, y + 3);
}

function drawFrame(pane, pen, frame, zoom, chosen) {
  if (frame.group.parent === null) return;
  const isChosen = frame.id === chosen;
  pen.beginPath(); pen.roundRect(frame.left, frame.top, frame.width, frame.height, 12);
  pen.fillStyle = colours.group; pen.globalAlpha = 0.04; pen.fill(); pen.globalAlpha = 1;
  pen.strokeStyle = isChosen ? colours.accent : colours.line; pen.lineWidth = isChosen ? 3 : Math.min(1.2 / zoom, 4); pen.stroke();
  if (zoom < TEXT_FROM) return;
  pen.textAlign = "left"; pen.font = FONTS.title; pen.fillStyle = colours.group;
  pen.fillText(`⊟ ${title(frame.group)}`, frame.left + 12, frame.top + 20);
}

function drawBox(pane, pen, box, zoom, chosen, matches) {
  const { left, top, width, height } = box, colour = colourOf(pane, box), isChosen = box.id === chosen;
  const isHit = matches && matches.has(box.id);
  if (matches && !isHit && !isChosen) pen.globalAlpha = 0.3;
  if (zoom < TEXT_FROM) { pen.fillStyle = colour.fill || colour.line; pen.fillRect(left, top, width, height); } else {
    pen.beginPath(); pen.roundRect(left, top, width, height, ROUND);
    pen.fillStyle = colour.fill || colours.panel; pen.fill();
    if (box.role === "quantised" && !colour.fill && !isDiff) { pen.globalAlpha *= 0.16; pen.fillStyle = colours.quantised; pen.fill(); pen.globalAlpha = matches && !isHit && !isChosen ? 0.3 : 1; }
    const isMarked = box.mark || box.role === "quantised" && !isDiff;
    pen.strokeStyle = isMarked ? colour.line : colours.line; pen.lineWidth = isMarked ? 2 : 1.2; pen.stroke();
    pen.fillStyle = colour.line; pen.fillRect(left + 1, top + 6, 5, height - 12);
    pen.textAlign = "left";
    box.lines.forEach(([text, font, name], at) => {
      pen.font = font; pen.fillStyle = name === "colour" ? colours[box.mark] || (box.role === "quantised" ? colours.quantised : colours.soft) : colours[name];
      pen.fillText(text, left + 14, top + 17 + 14 * at);
    });
    if (box.group?.quantised && !isDiff) { pen.fillStyle = colours.quantised; pen.fillRect(left + 8, top + height - 3, (width - 16) * box.group.quantised / box.group.nodes, 3); }
  }
  pen.globalAlpha = 1;
  if (isChosen || isHit) {
    pen.strokeStyle = isChosen ? colours.accent : colours.hot; pen.lineWidth = Math.max(3, Math.min(2 / zoom, 30));
    pen.strokeRect(left - 2, top - 2, width + 4, height + 4);
  }
  if (isHit && box.group && zoom >= TEXT_FROM) {
    pen.textAlign = "right"; pen.font = FONTS.label; pen.fillStyle = colours.hot; pen.fillText(`${matches.get(box.id)} found`, left + width - 6, top - 6);
  }
}

// Draw the visible part of a scene; the pen is already translated and scaled.
export function drawScene(pane, pen, zoom, seen) {
  const chosen = pane.chosenId(), matches = state.hits.length ? pane.countMatches() : null;
  const isSeen = box => box.left + box.width >= seen.left && box.left <= seen.right && box.top + box.height >= seen.top && box.top <= seen.bottom;
  for (const frame of pane.scene.frames) if (isSeen(frame)) drawFrame(pane, pen, frame, zoom, chosen);
  drawEdges(pane, pen, zoom, seen);
  for (const box of pane.scene.boxes) if (isSeen(box)) drawBox(pane, pen, box, zoom, chosen, matches);
}
