// ---- export of the drawing: as SVG, or as PNG from a large canvas -------------------------------------------------
import { colours, state } from "./data.mjs";
import { make } from "./elements.mjs";
import { drawScene } from "./drawing.mjs";

const MARGIN = 24, LARGEST_SIDE = 16000, MOST_PIXELS = 120e6;
const escaped = text => String(text).replace(/[&<>"]/g, sign => `&#${sign.charCodeAt(0)};`);
const short = number => Number(number.toFixed(1));

class SvgPen {
  constructor() { Object.assign(this, { parts: [], path: "", fillStyle: "", strokeStyle: "", lineWidth: 1, globalAlpha: 1, font: "", textAlign: "left", dash: [] }); }
  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${short(x)} ${short(y)}`; }
  lineTo(x, y) { this.path += `L${short(x)} ${short(y)}`; }
  bezierCurveTo(...points) { this.path += `C${points.map(short).join(" ")}`; }
  closePath() { this.path += "Z"; }
  roundRect(x, y, width, height, round) { this.shape = `<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" rx="${round}"`; this.path = null; }
  outline() { return this.path === null ? this.shape : `<path d="${this.path}"`; }
  alpha() { return this.globalAlpha < 1 ? ` opacity="${short(this.globalAlpha * 100) / 100}"` : ""; }
  fill() { this.parts.push(`${this.outline()} fill="${this.fillStyle}"${this.alpha()}/>`); }
  stroke() { this.parts.push(`${this.outline()} fill="none" stroke="${this.strokeStyle}" stroke-width="${short(this.lineWidth)}"${this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : ""}${this.alpha()}/>`); }
  fillRect(x, y, width, height) { this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="${this.fillStyle}"${this.alpha()}/>`); }
  strokeRect(x, y, width, height) { this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="none" stroke="${this.strokeStyle}" stroke-width="${short(this.lineWidth)}"${this.alpha()}/>`); }
  fillText(text, x, y) {
    const anchor = { center: "middle", right: "end" }[this.textAlign];
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" style="font:${escaped(this.font)}" fill="${this.fillStyle}"${anchor ? ` text-anchor="${anchor}"` : ""}${this.alpha()}>${escaped(text)}</text>`);
  }
  setLineDash(dash) { this.dash = dash; }
}

const EVERYTHING = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };
export function svgOf(pane) {
  const { bounds } = pane.scene, pen = new SvgPen(), width = bounds.right - bounds.left + 2 * MARGIN, height = bounds.bottom - bounds.top + 2 * MARGIN;
  drawScene(pane, pen, 1, EVERYTHING);
  const box = [bounds.left - MARGIN, bounds.top - MARGIN, width, height].map(short);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${box.join(" ")}" width="${box[2]}" height="${box[3]}">\n<title>${escaped(pane.side.name)}</title>\n`
    + `<rect x="${box[0]}" y="${box[1]}" width="100%" height="100%" fill="${colours.ground}"/>\n${pen.parts.join("\n")}\n</svg>\n`;
}
export function pngOf(pane) {
  const { bounds } = pane.scene, width = bounds.right - bounds.left + 2 * MARGIN, height = bounds.bottom - bounds.top + 2 * MARGIN;
  const scale = Math.min(2, LARGEST_SIDE / width, LARGEST_SIDE / height, Math.sqrt(MOST_PIXELS / (width * height)));
  const sheet = Object.assign(document.createElement("canvas"), { width: Math.ceil(width * scale), height: Math.ceil(height * scale) }), pen = sheet.getContext("2d");
  pen.fillStyle = colours.ground; pen.fillRect(0, 0, sheet.width, sheet.height);
  pen.setTransform(scale, 0, 0, scale, (MARGIN - bounds.left) * scale, (MARGIN - bounds.top) * scale);
  drawScene(pane, pen, scale, EVERYTHING);
  return new Promise(done => { sheet.toBlob(done, "image/png"); });
}
function save(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", null, { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
const fileName = (pane, ending) => `${pane.side.name.replace(/[^\w.-]+/g, "_")}.${ending}`;
export function listenToExport() {
  document.getElementById("svg").addEventListener("click", () => save(new Blob([svgOf(state.active)], { type: "image/svg+xml" }), fileName(state.active, "svg")));
  document.getElementById("png").addEventListener("click", async () => save(await pngOf(state.active), fileName(state.active, "png")));
}
