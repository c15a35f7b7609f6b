// ---- what is chosen: shown in the card, in the drawing, in the other pane, and in the page's address -------------
import { data, isDiff, state } from "./data.mjs";
import { groupId } from "./boxes.mjs";
import { groupCard, nodeCard, summaryCard } from "./card.mjs";

function tell(text) {
  // A page within another, or one that may not, keeps its address.
  try { history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search); } catch { /* its address stays */ }
}
export function choose(pane, chosen) {
  for (const each of state.panes) each.selected = each === pane ? chosen : null;
  state.active = pane;
  if (chosen.node) nodeCard(pane, chosen.node); else groupCard(pane, chosen.group);
  if (chosen.node) tell(`${pane.link}=${encodeURIComponent(chosen.node.key)}`);
  if (isDiff && chosen.node) showPartner(pane, chosen.node);
  state.panes.forEach(each => each.redraw());
}
// The same node on the other side.
function showPartner(pane, node) {
  const own = state.panes.indexOf(pane), other = state.panes[1 - own], pair = data.pairs.find(each => each[own] === node.index);
  if (!pair) return;
  const partner = other.side.nodes[pair[1 - own]];
  other.selected = { node: partner }; other.centre(other.idOf(partner));
}
export function clear() {
  for (const pane of state.panes) { pane.selected = null; pane.redraw(); }
  summaryCard(); tell("");
}
export function reveal(pane, index) {
  const node = pane.side.nodes[index], reader = pane.side.readers[index][0];
  // A weight stands in its readers: one of them is shown.
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
  const pane = state.panes.find(each => each.link === link);
  if (!pane || text === undefined) return;
  let name = text;
  try { name = decodeURIComponent(text); } catch { /* as it stands */ }
  if (pane.side.byKey.has(name)) reveal(pane, pane.side.byKey.get(name));
}
