// ---- the minimap: the whole drawing, and the visible part of it ---------------------------------------------------
import { colours } from "./data.mjs";
import { colourOf } from "./colours.mjs";

function scaleOf(pane) {
  const { bounds } = pane.scene, width = bounds.right - bounds.left, height = bounds.bottom - bounds.top;
  const scale = 0.94 * Math.min(pane.map.width / Math.max(width, 1), pane.map.height / Math.max(height, 1));
  return { scale, left: (pane.map.width - scale * width) / 2 - scale * bounds.left, top: (pane.map.height - scale * height) / 2 - scale * bounds.top };
}
export function renderMap(pane) {
  pane.mapSheet ||= document.createElement("canvas");
  const sheet = Object.assign(pane.mapSheet, { width: pane.map.width, height: pane.map.height }), pen = sheet.getContext("2d"), { scale, left, top } = scaleOf(pane);
  for (const box of pane.scene.boxes) {
    const colour = colourOf(pane, box);
    pen.fillStyle = colour.fill || colour.line;
    pen.fillRect(left + scale * box.left, top + scale * box.top, Math.max(scale * box.width, 1), Math.max(scale * box.height, 1));
  }
}
export function drawMap(pane) {
  const pen = pane.map.getContext("2d"), { view, canvas, map } = pane, { scale, left, top } = scaleOf(pane);
  pen.clearRect(0, 0, map.width, map.height); pen.drawImage(pane.mapSheet, 0, 0);
  pen.strokeStyle = colours.accent; pen.lineWidth = 1.5;
  pen.strokeRect(left - scale * view.x / view.zoom, top - scale * view.y / view.zoom, scale * canvas.clientWidth / view.zoom, scale * canvas.clientHeight / view.zoom);
}
export function listenToMap(pane) {
  const go = event => {
    const { scale, left, top } = scaleOf(pane), { view, canvas } = pane;
    view.x = canvas.clientWidth / 2 - view.zoom * (event.offsetX - left) / scale; view.y = canvas.clientHeight / 2 - view.zoom * (event.offsetY - top) / scale;
    pane.redraw();
  };
  pane.map.addEventListener("pointerdown", event => { pane.map.setPointerCapture(event.pointerId); go(event); });
  pane.map.addEventListener("pointermove", event => { if (event.buttons) go(event); });
}
