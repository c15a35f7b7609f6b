// ---- the card: the details of a node or a group, as selectable text -----------------------------------------------
import { data, isDiff, page, state } from "./data.mjs";
import { quantity, facts, line, make, section } from "./elements.mjs";
import { countText, markText, title } from "./boxes.mjs";
import { reveal, revealGroup } from "./selection.mjs";
import { quantisation } from "./quantisation.mjs";
import { within } from "./side.mjs";

const MOST = 60, MOST_CHANGES = 1000;
const anchor = (text, href, follow) => make("a", text, { href, onclick: event => { event.preventDefault(); follow(); } });
const nodeLink = (pane, index) => anchor(pane.side.nodes[index].name, `#${pane.link}=${encodeURIComponent(pane.side.nodes[index].key)}`, () => reveal(pane, index));
const groupLink = (pane, index) => anchor(title(pane.side.groups[index]), "#", () => revealGroup(pane, index));
const cut = (list, most, show) => [...list.slice(0, most).flatMap(show), ...(list.length > most ? [make("dt", "…"), make("dd", `${list.length - most} more`)] : [])];
const listed = (list, show) => list.length ? make("dl", cut(list, MOST, show)) : null;

function show(pane, name, parts) {
  page.card.replaceChildren(...parts.flat());
  page.card.dataset.node = name;
  page.card.scrollTop = 0;
}
function around(pane, group) {
  const path = [];
  for (let at = group; at !== null && at !== 0; at = pane.side.groups[at].parent) path.unshift(at);
  return path.length ? make("p", path.flatMap((at, depth) => [depth ? " › " : "", groupLink(pane, at)]), { className: "kind" }) : null;
}
function timeFacts(time) {
  if (!time) return [];
  const rows = [];
  if (time.measured) rows.push(["measured", `${Number(time.measured.toPrecision(4))} µs${time.runs > 1 ? ` in each of ${time.runs} runs` : ""}${time.share === undefined ? "" : `, ${(100 * time.share).toFixed(1)} %`}`]);
  if (time.least) rows.push(["at least", `${Number(time.least.toPrecision(3))} µs${time.by ? ` by ${time.by}` : ""}`]);
  if (time.measured && time.least) rows.push(["ratio", `${(time.measured / time.least).toFixed(1)} ×`]);
  return section("Time", rows.length ? facts(rows) : null);
}

export function nodeCard(pane, node) {
  const { side } = pane, attributes = Object.entries(node.attributes);
  show(pane, node.name, [
    make("h2", node.name), make("p", node.type, { className: "kind" }), around(pane, node.group) || [],
    node.remarks.map(text => make("p", text, { className: "remark" })),
    node.mark ? section(node.mark[0].toUpperCase() + node.mark.slice(1), (node.changes || [`only ${node.mark === "added" ? "after" : "before"}`]).map(text => line(text, node.mark))) : [],
    section("Results", listed(node.outputs, ([name, type]) => [make("dt", name || "y"), make("dd", type)])),
    section("Value", node.value ? facts([["constant", node.value]]) : null),
    section("Inputs", listed(node.inputs, input => [make("dt", input.control ? "after" : input.name), make("dd", [nodeLink(pane, input.from), input.control ? "" : `  ${input.type}`, side.nodes[input.from].shape ? `  = ${side.nodes[input.from].shape}` : ""])])),
    section("Read by", listed(side.readers[node.index], reader => [make("dt", reader.input.name || "after"), make("dd", nodeLink(pane, reader.to))])),
    section("Attributes", attributes.length ? facts(attributes) : null),
    quantisation(node.quant), timeFacts(node.time),
    section("Source", node.source.length ? facts(node.source) : null),
    section("Cost", facts([["moves", quantity(node.bytes, "B")], ["computes", quantity(node.flops, "FLOP")]])),
  ]);
}

export function groupCard(pane, group) {
  const { side } = pane, kinds = new Map(), weights = [];
  for (const index of within(side, group.index)) {
    const node = side.nodes[index];
    if (node.inline) { if (node.role === "input") weights.push(index); } else kinds.set(node.type, (kinds.get(node.type) || 0) + 1);
  }
  const contents = [
    ...group.children.filter(at => side.groups[at].shown).map(at => [side.groups[at].kind, groupLink(pane, at)]),
    ...group.members.filter(at => !side.nodes[at].inline && !side.nodes[at].isShape).map(at => [side.nodes[at].type, nodeLink(pane, at)]),
  ];
  const button = make("button", pane.open.has(group.index) ? "Close" : "Open", { onclick: () => { pane.toggle(group); groupCard(pane, group); } });
  show(pane, group.label, [
    make("h2", title(group)), make("p", `${group.kind}: ${countText(group)}`, { className: "kind" }), around(pane, group.parent) || [],
    markText(group) ? line(markText(group), "changed") : [], make("p", button),
    section("Differs", (group.differs || []).map(text => make("p", text, { className: "remark" }))),
    section("Contains", listed(contents, ([kind, link]) => [make("dt", kind), make("dd", link)])),
    section("Weights", listed(weights, at => [make("dt", nodeLink(pane, at)), make("dd", side.nodes[at].outputs.map(output => output[1]).join(" "))])),
    section("Types", listed([...kinds].sort((a, b) => b[1] - a[1]), ([kind, count]) => [make("dt", String(count)), make("dd", kind)])),
    timeFacts(group.hasTime ? group : null),
    section("Cost", facts([["moves", quantity(group.bytes, "B")], ["computes", quantity(group.flops, "FLOP")]])),
  ]);
}

function changeLine(change) {
  const follow = () => {
    change.nodes.forEach((index, at) => { if (index !== null) { state.panes[at].expose(state.panes[at].side.nodes[index]); } });
    const at = change.nodes[1] === null ? 0 : 1;
    reveal(state.panes[at], change.nodes[at]);
  };
  return make("li", [anchor(change.text, "#", follow), ...(change.details || []).map(text => line(text))], { className: change.kind });
}
export function summaryCard() {
  const changes = data.changes || [], hidden = changes.length - MOST_CHANGES;
  const pane = state.panes[0], root = pane.side.groups[0];
  delete page.card.dataset.node;
  page.card.replaceChildren(make("h2", data.title), ...data.summary.map(text => line(text)),
    ...section("Changes", changes.length ? make("ol", changes.slice(0, MOST_CHANGES).map(changeLine), { id: "changes" }) : null),
    ...(hidden > 0 ? [line(`${hidden} more changes`)] : []),
    ...(isDiff ? [] : section("Outline", listed(root.children.filter(at => pane.side.groups[at].shown), at => [make("dt", countText(pane.side.groups[at])), make("dd", groupLink(pane, at))]))),
    make("p", "Drag to move, scroll to zoom. Click a node for its card; ⊞ or a double click opens a group. Keys: / search, n and N next and previous match, arrows move between nodes, Enter opens and closes, f fits, + and - zoom.", { className: "kind" }));
}
