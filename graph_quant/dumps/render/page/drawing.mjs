import { FONTS, canvas, colours, pen, state, view } from "./data.mjs";
import { boxOf } from "./scene.mjs";
import { HEIGHT } from "./layout.mjs";

// ---- drawing ----------------------------------------------------------------------------------------------------
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ground", "panel", "ink", "soft", "line", "accent", "input", "constant", "quantised", "plain", "group", "added", "changed", "removed"])
    colours[name] = style.getPropertyValue(`--${name}`).trim();
}

let frame = 0;
export const redraw = () => { if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); }); };

function clip(text, width) {
  if (pen.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) { const middle = (low + high + 1) >> 1; if (pen.measureText(text.slice(0, middle) + "…").width <= width) low = middle; else high = middle - 1; }
  return text.slice(0, low) + "…";
}

function draw() {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.setTransform(ratio * view.zoom, 0, 0, ratio * view.zoom, ratio * view.x, ratio * view.y);
  const seen = { left: -view.x / view.zoom, top: -view.y / view.zoom, right: (width - view.x) / view.zoom, bottom: (height - view.y) / view.zoom };
  const chosen = state.selected === null ? null : state.scene.byId.get(boxOf(state.selected));
  for (const edge of state.scene.edges) drawEdge(edge, seen, chosen);
  for (const box of state.scene.boxes) {
    if (box.x + box.width / 2 < seen.left || box.x - box.width / 2 > seen.right || box.y + HEIGHT < seen.top || box.y > seen.bottom) continue;
    drawBox(box, box === chosen);
  }
}

function drawEdge(edge, seen, chosen) {
  const top = edge.from.y + HEIGHT, bottom = edge.to.y, near = chosen && (edge.from === chosen || edge.to === chosen);
  if (bottom < seen.top || top > seen.bottom || (edge.long && !near && view.zoom < 0.12)) return;
  const points = [{ x: edge.from.x, y: top }, ...edge.bends.map(bend => ({ x: bend.x, y: bend.y + HEIGHT / 2 })), { x: edge.to.x, y: bottom }];
  pen.beginPath(); pen.moveTo(points[0].x, points[0].y);
  for (let at = 1; at < points.length; at++) {
    const a = points[at - 1], b = points[at], middle = (a.y + b.y) / 2;
    pen.bezierCurveTo(a.x, middle, b.x, middle, b.x, b.y);
  }
  pen.strokeStyle = near ? colours.accent : edge.type.startsWith("int4") || edge.type.startsWith("int8") || edge.type.startsWith("uint8") ? colours.quantised : colours.soft;
  pen.globalAlpha = near ? 1 : edge.long ? 0.08 : edge.to.size || edge.from.size ? 0.3 : 0.6;
  pen.lineWidth = near ? 2 : 1.2;
  pen.setLineDash(edge.control ? [5, 4] : []);
  pen.stroke(); pen.setLineDash([]); pen.globalAlpha = 1;
  if (view.zoom > 0.35) {
    pen.beginPath(); pen.moveTo(edge.to.x, bottom); pen.lineTo(edge.to.x - 4, bottom - 7); pen.lineTo(edge.to.x + 4, bottom - 7); pen.closePath();
    pen.fillStyle = pen.strokeStyle; pen.globalAlpha = near ? 1 : edge.long ? 0.2 : 0.7; pen.fill(); pen.globalAlpha = 1;
  }
  if (view.zoom > 0.75 && !edge.control && (near || (!edge.long && edge.to.in.length <= 3))) {
    // Where several edges meet, their labels stand apart: near the producers.
    const a = points[points.length - 2], b = points[points.length - 1], share = edge.to.in.length > 1 ? 0.24 : 0.5;
    const x = a.x + (b.x - a.x) * share * share * (3 - 2 * share), y = a.y + (b.y - a.y) * share;
    pen.font = FONTS.detail; pen.textAlign = "center";
    const text = edge.type + (edge.count > 1 ? `  ×${edge.count}` : ""), wide = pen.measureText(text).width + 8;
    pen.fillStyle = colours.ground; pen.globalAlpha = 0.9; pen.fillRect(x - wide / 2, y - 8, wide, 14); pen.globalAlpha = 1;
    pen.fillStyle = near ? colours.accent : colours.soft; pen.fillText(text, x, y + 3);
  }
}

function drawBox(box, chosen) {
  const left = box.x - box.width / 2, colour = colours[box.mark] || colours[box.role];
  if (view.zoom < 0.22) {
    pen.fillStyle = colour; pen.fillRect(left, box.y, box.width, HEIGHT);
    if (chosen) { pen.strokeStyle = colours.accent; pen.lineWidth = 6 / view.zoom; pen.strokeRect(left, box.y, box.width, HEIGHT); }
    return;
  }
  pen.beginPath(); pen.roundRect(left, box.y, box.width, HEIGHT, 9);
  pen.fillStyle = colours.panel; pen.fill();
  pen.strokeStyle = chosen ? colours.accent : box.mark ? colour : colours.line; pen.lineWidth = chosen ? 3 : box.mark ? 2.5 : 1.2; pen.stroke();
  pen.beginPath(); pen.roundRect(left, box.y, 6, HEIGHT, [9, 0, 0, 9]); pen.fillStyle = colour; pen.fill();
  pen.textAlign = "left";
  pen.fillStyle = colours.ink; pen.font = FONTS.title;
  pen.fillText(clip(box.title, box.width - 22), left + 14, box.y + 16);
  pen.fillStyle = colours.soft; pen.font = FONTS.label; pen.fillText(clip(box.label, box.width - 22), left + 14, box.y + 30);
  pen.fillStyle = colour; pen.font = FONTS.detail; pen.fillText(clip(box.detail, box.width - 22), left + 14, box.y + 44);
}
