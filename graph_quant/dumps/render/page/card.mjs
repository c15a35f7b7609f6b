import { card, data, folded, groupOf, groups, nodes, readers, state } from "./data.mjs";
import { redraw } from "./drawing.mjs";
import { centre } from "./moving.mjs";
import { relayout, toggle } from "./folding.mjs";

// ---- the card. Text from the dump only ever becomes text nodes. ---------------------------------------------------
export function make(tag, content, properties = {}) {
  const element = Object.assign(document.createElement(tag), properties);
  for (const part of [content].flat()) if (part !== undefined && part !== null) element.append(part);
  return element;
}
const link = index => make("a", nodes[index].name, { onclick: () => { reveal(index); } });
const section = (title, body) => body && (!Array.isArray(body) || body.length) ? [make("h3", title), ...[body].flat()] : [];
const facts = pairs => make("dl", pairs.flatMap(([key, value]) => [make("dt", key), make("dd", value)]));
const amount = (value, unit) => value === null ? `? ${unit}` : typeof value === "number" ? `${value.toLocaleString("en")} ${unit}` : `${value} ${unit}`;

function bits(fields) {
  const total = fields.reduce((sum, field) => sum + field.width, 0);
  return make("div", fields.map(field => {
    const cell = make("div", [field.name, make("small", field.range)], { className: field.live ? "live" : "" });
    cell.style.flex = `${Math.max(field.width / total, 0.07)} 1 0`;
    return cell;
  }), { className: "bits" });
}
const nibbles = () => bits([7, 6, 5, 4, 3, 2, 1, 0].map(element => ({ name: `e${element}`, range: `${4 * element + 3}–${4 * element}`, width: 4, live: true })));
const parameterBits = () => bits([
  { name: "0", range: "63–47", width: 17 }, { name: "1", range: "46", width: 1 }, { name: "offset", range: "45–37", width: 9, live: true },
  { name: "0", range: "36–32", width: 5 }, { name: "scale", range: "31–13", width: 19, live: true }, { name: "0", range: "12–0", width: 13 },
]);
function decode(text) {
  let value;
  try { value = BigInt.asUintN(64, BigInt(text.trim())); } catch { return "not a whole number"; }
  const buffer = new DataView(new ArrayBuffer(4));
  buffer.setUint32(0, Number(value & 0xffffe000n));
  const offset = Number(BigInt.asIntN(9, value >> 37n));
  return `scale ${Number(buffer.getFloat32(0).toPrecision(7))}, offset ${offset}, bit 46 is ${(value >> 46n) & 1n}`;
}
function decoder(first) {
  const answer = make("p", decode(first), { className: "kind" });
  const field = make("input", null, { value: first, oninput: () => { answer.textContent = decode(field.value); } });
  field.setAttribute("aria-label", "A parameter to decode");
  return [make("div", field, { className: "decode" }), answer];
}
function quantisation(quant) {
  if (!quant) return [];
  const body = [];
  if (quant.destination) body.push(facts([["destination", quant.destination], ["range", quant.range], ["packing", quant.packing]]));
  if (quant.packed) body.push(make("p", "One int32 holds eight elements, the first in the lowest nibble; two's complement.", { className: "kind" }), nibbles());
  if (quant.parameters) {
    body.push(make("p", "A 64-bit parameter of npu_trans_quant_param:", { className: "kind" }), parameterBits(), ...decoder(quant.parameters.example));
    if (quant.parameters.values.length) body.push(facts(quant.parameters.values.map((text, at) => [`[${at}]`, text])));
  }
  return section("Quantisation", body);
}

export function select(index, group) {
  state.selected = index;
  const node = nodes[index], folding = group !== null && group !== undefined ? groups[group] : null;
  const parts = [make("h2", node.name), make("p", folding ? `${folding.label} – ${folding.members.length} nodes` : node.type, { className: "kind" })];
  node.remarks.forEach(text => parts.push(make("p", text, { className: "remark" })));
  if (node.changes) parts.push(...section("Changed", node.changes.map(text => make("p", text, { className: "line changed" }))));
  if (groupOf.has(index)) {
    const number = groupOf.get(index);
    parts.push(make("p", make("button", folded.has(number) ? "Unfold" : `Fold into “${groups[number].label}”`, { onclick: () => toggle(number) })));
  }
  if (folding) parts.push(...section("Nodes", make("dl", folding.members.flatMap(member => [make("dt", nodes[member].type), make("dd", link(member))]))));
  parts.push(...section("Results", facts(node.outputs.map(output => [output.name || "y", output.type]))));
  if (node.value) parts.push(...section("Value", make("dl", [make("dt", "constant"), make("dd", node.value)])));
  parts.push(...section("Inputs", node.inputs.length ? make("dl", node.inputs.flatMap(input => [make("dt", input.control ? "after" : input.name), make("dd", [link(input.from), input.control ? "" : `  ${input.type}`])])) : null));
  parts.push(...section("Read by", readers[index].length ? make("dl", readers[index].slice(0, 40).flatMap(reader => [make("dt", reader.input.name || "after"), make("dd", link(reader.to))])) : null));
  const attributes = Object.entries(node.attributes);
  parts.push(...section("Attributes", attributes.length ? facts(attributes) : null));
  parts.push(...quantisation(node.quant));
  parts.push(...section("Source", node.source.length ? facts(node.source) : null));
  parts.push(...section("Cost", facts([["moves", amount(node.bytes, "B")], ["computes", amount(node.flops, "FLOP")]])));
  card.replaceChildren(...parts);
  card.dataset.node = node.name;
  redraw();
}
export function clear() {
  state.selected = null; delete card.dataset.node;
  card.replaceChildren(make("h2", data.title), ...data.summary.map(([kind, text]) => make("p", text, { className: `line ${kind}` })),
    make("p", "Drag to move, scroll to zoom, click a node for its card, double-click an idiom to unfold it.", { className: "kind" }));
  redraw();
}
export function reveal(index) {
  const group = groupOf.get(index);
  if (group !== undefined && folded.has(group) && groups[group].head !== index) { folded.delete(group); relayout(); }
  centre(index); select(index, folded.has(group) ? group : null);
}
