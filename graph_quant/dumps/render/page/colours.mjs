// ---- colours: the theme, the colour of each box, and the legend ---------------------------------------------------
import { colours, data, isDiff, page, state } from "./data.mjs";
import { make } from "./elements.mjs";

const NAMES = ["ground", "panel", "ink", "soft", "line", "accent", "input", "constant", "quantised", "plain", "group", "added", "changed", "removed", "cold", "hot"];
const KINDS = [["input", "input, output"], ["quantised", "quantised"], ["plain", "other"], ["group", "group"]];
const MARKS = [["removed", "only before"], ["added", "only after"], ["changed", "changed"], ["plain", "unchanged"]];
const BOUNDS = [["quantised", "memory bound"], ["group", "cube bound"], ["input", "vector bound"]];
const BY = { memory: "quantised", cube: "group", vector: "input" };

export function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const style = getComputedStyle(document.documentElement);
  for (const name of NAMES) colours[name] = style.getPropertyValue(`--${name}`).trim();
  shades = [];
}

let shades = [];
// A colour from cold to hot for the square root of a share, as few nodes are near the maximum.
function shade(share) {
  if (!shades.length) {
    const [cold, hot] = [colours.cold, colours.hot].map(text => [1, 3, 5].map(at => parseInt(text.slice(at, at + 2), 16)));
    shades = Array.from({ length: 33 }, (_, step) => `rgb(${cold.map((from, at) => Math.round(from + (hot[at] - from) * step / 32)).join(",")})`);
  }
  return shades[Math.round(32 * Math.sqrt(Math.min(Math.max(share, 0), 1)))];
}

const timeOf = box => (box.node ? box.node.time : box.group.hasTime ? box.group : null) || null;
export const MODES = {
  kind: { label: "kind", value: () => null },
  measured: { label: "measured time", value: time => time.measured ?? null, unit: "µs" },
  least: { label: "least time", value: time => time.least ?? null, unit: "µs" },
  ratio: { label: "measured / least", value: time => time.measured && time.least ? time.measured / time.least : null, unit: "×" },
  by: { label: "bound", value: () => null },
};
export const usedModes = () => {
  const times = data.sides.flatMap(side => side.nodes).map(node => node.time).filter(Boolean);
  const measured = times.some(time => time.measured !== undefined), least = times.some(time => time.least !== undefined);
  return ["kind", ...(measured ? ["measured"] : []), ...(least ? ["least", "by"] : []), ...(measured && least ? ["ratio"] : [])];
};

export function heat(pane) {
  const { value } = MODES[state.colour];
  pane.hottest = 0;
  for (const box of pane.scene.boxes) { const time = timeOf(box), current = time && value(time); if (current) pane.hottest = Math.max(pane.hottest, current); }
}
// The line colour of a box, and its fill if colours show times.
export function colourOf(pane, box) {
  if (state.colour === "by") return { line: colours[BY[box.node?.time?.by]] || colours.line, fill: null };
  if (state.colour !== "kind") {
    const time = timeOf(box), value = time ? MODES[state.colour].value(time) : null;
    return { line: colours[box.mark] || colours.line, fill: value === null ? null : shade(value / (pane.hottest || 1)) };
  }
  if (isDiff) return { line: colours[box.mark] || (box.group ? colours.group : colours.plain), fill: null };
  return { line: colours[box.mark] || colours[box.role], fill: null };
}

function entry([name, text]) {
  const patch = make("i");
  patch.style.background = `var(--${name})`;
  return make("li", [patch, text]);
}
export function showLegend() {
  const mode = MODES[state.colour];
  if (state.colour === "by") page.legend.replaceChildren(...BOUNDS.map(entry));
  else if (state.colour !== "kind") {
    const bar = make("i", null, { className: "scale" }), hottest = Math.max(...state.panes.map(pane => pane.hottest || 0));
    page.legend.replaceChildren(make("li", "0"), make("li", [bar, `${Number(hottest.toPrecision(3))} ${mode.unit}`]));
  } else page.legend.replaceChildren(...(isDiff ? MARKS : KINDS).map(entry));
}
