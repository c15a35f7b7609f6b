import { folded, groupOf, groups, nodes } from "./data.mjs";

// ---- what is drawn: a box for every node, or one for a folded group -------------------------------------------
export const boxOf = index => groupOf.has(index) && folded.has(groupOf.get(index)) ? `g${groupOf.get(index)}` : `n${index}`;

export function buildScene() {
  const boxes = new Map(), edges = [], seen = new Map();
  nodes.forEach((node, index) => {
    const id = boxOf(index);
    if (boxes.has(id)) return;
    const group = id[0] === "g" ? groups[+id.slice(1)] : null;
    const subject = group ? nodes[group.head] : node;
    const marks = group ? group.members.map(member => nodes[member].mark) : [node.mark];
    boxes.set(id, {
      id, group: group ? +id.slice(1) : null, node: group ? group.head : index, in: [], out: [],
      title: group ? `⊞ ${group.label}` : node.type, label: subject.name, detail: subject.outputs.map(output => output.type).join("  "),
      role: group ? "group" : node.role, mark: marks.find(Boolean) || "", leaf: !subject.inputs.length, size: subject.size,
      aside: subject.size || !subject.inputs.length,
    });
  });
  nodes.forEach((node, index) => node.inputs.forEach(input => {
    const from = boxOf(input.from), to = boxOf(index);
    if (from === to) return;
    const key = `${from} ${to}`;
    if (seen.has(key)) { seen.get(key).count++; return; }
    const edge = { from: boxes.get(from), to: boxes.get(to), type: input.type, control: input.control, count: 1 };
    seen.set(key, edge); edges.push(edge); edge.from.out.push(edge); edge.to.in.push(edge);
  }));
  return { boxes: [...boxes.values()], byId: boxes, edges };
}
