// ---- the selection: shown in the card, in the drawing, in the other pane, and in the address of the page ----------
import { data, isDiff, state } from "./data.mjs";
import { groupId } from "./boxes.mjs";
import { groupCard, nodeCard, summaryCard } from "./card.mjs";

function setAddress(text) {
  // Not allowed in an embedded page.
  try { history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search); } catch { /* keeps its address */ }
}
export function choose(pane, chosen) {
  for (const other of state.panes) other.selected = other === pane ? chosen : null;
  state.active = pane;
  if (chosen.node) nodeCard(pane, chosen.node); else groupCard(pane, chosen.group);
  if (chosen.node) setAddress(`${pane.link}=${encodeURIComponent(chosen.node.key)}`);
  if (isDiff && chosen.node) showPartner(pane, chosen.node);
  state.panes.forEach(other => other.redraw());
}
// The same node on the other side.
function showPartner(pane, node) {
  const own = state.panes.indexOf(pane), other = state.panes[1 - own], pair = data.pairs.find(numbers => numbers[own] === node.index);
  if (!pair) return;
  const partner = other.side.nodes[pair[1 - own]];
  other.selected = { node: partner }; other.centre(other.idOf(partner));
}
export function clear() {
  for (const pane of state.panes) { pane.selected = null; pane.redraw(); }
  summaryCard(); setAddress("");
}
export function reveal(pane, index) {
  const node = pane.side.nodes[index], reader = pane.side.readers[index][0];
  // A weight is drawn inside its readers: show the first.
  const shown = !node.inline ? node : reader ? pane.side.nodes[reader.to] : null;
  if (shown) { pane.expose(shown); pane.centre(pane.idOf(shown)); }
  choose(pane, { node });
}
export function revealGroup(pane, index) {
  const group = pane.side.groups[index];
  const closed = [];
  for (let at = group.parent; at !== null; at = pane.side.groups[at].parent) if (!pane.open.has(at)) closed.push(at);
  if (closed.length) { closed.forEach(at => pane.open.add(at)); pane.relayout(); }
  choose(pane, { group }); pane.centre(groupId(index));
}
export function followAddress() {
  const [link, text] = location.hash.slice(1).split("=");
  const pane = state.panes.find(candidate => candidate.link === link);
  if (!pane || text === undefined) return;
  let name = text;
  try { name = decodeURIComponent(text); } catch { /* not encoded */ }
  if (pane.side.byKey.has(name)) reveal(pane, pane.side.byKey.get(name));
}
