// ---- quantisation in the card: range, packing of int4, and the bits of a parameter --------------------------------
import { facts, make, section } from "./elements.mjs";

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
export function quantisation(quant) {
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
