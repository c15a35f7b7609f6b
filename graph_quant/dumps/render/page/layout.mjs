import { FONTS, pen, state } from "./data.mjs";
import { buildScene } from "./scene.mjs";

// ---- layout: layers by longest path, order by barycentre, places by least squares -----------------------------
export const GAP = 26, ROW = 100, HEIGHT = 50, LONGEST_ROUTE = 6;

function layers(scene) {
  const waiting = new Map(scene.boxes.map(box => [box, box.in.length])), ready = scene.boxes.filter(box => !box.in.length), order = [];
  scene.boxes.forEach(box => { box.layer = 0; });
  for (let at = 0; at < ready.length; at++) {
    const box = ready[at]; order.push(box);
    for (const edge of box.out) {
      edge.to.layer = Math.max(edge.to.layer, box.layer + 1);
      waiting.set(edge.to, waiting.get(edge.to) - 1);
      if (!waiting.get(edge.to)) ready.push(edge.to);
    }
  }
  // Constants, inputs and what computes sizes stand right above their first reader.
  for (let at = order.length - 1; at >= 0; at--) {
    const box = order[at];
    if ((box.leaf || box.size) && box.out.length) box.layer = Math.min(...box.out.map(edge => edge.to.layer)) - 1;
  }
}

function route(scene) {
  const rows = [];
  const put = item => { (rows[item.layer] = rows[item.layer] || []).push(item); };
  scene.boxes.forEach(box => { box.up = []; box.down = []; put(box); });
  for (const edge of scene.edges) {
    edge.bends = [];
    const span = edge.to.layer - edge.from.layer;
    edge.long = span > LONGEST_ROUTE;
    if (edge.long) continue;
    let last = edge.from;
    for (let layer = edge.from.layer + 1; layer < edge.to.layer; layer++) {
      const bend = { layer, width: 8, up: [last], down: [], aside: edge.from.aside };
      last.down.push(bend); put(bend); edge.bends.push(bend); last = bend;
    }
    last.down.push(edge.to); edge.to.up.push(last);
  }
  return Array.from(rows, row => row || []);
}

function order(rows) {
  const index = row => row.forEach((item, at) => { item.at = at; });
  rows.forEach(index);
  const sweep = (sequence, side) => {
    for (const row of sequence) {
      for (const item of row) {
        const near = item[side];
        item.centre = near.length ? near.reduce((sum, other) => sum + other.at, 0) / near.length : item.at;
      }
      row.sort((a, b) => a.centre - b.centre); index(row);
    }
  };
  for (let round = 0; round < 6; round++) { sweep(rows, "up"); sweep([...rows].reverse(), "down"); }
}

function place(rows) {
  for (const row of rows) { let x = 0; for (const item of row) { item.x = x + item.width / 2; x += item.width + GAP; } }
  const settle = row => {
    // Pool adjacent violators: the places closest to the wished ones that keep order and distance.
    const blocks = [];
    let offset = 0;
    row.forEach((item, at) => {
      if (at) offset += (row[at - 1].width + item.width) / 2 + GAP;
      item.offset = offset;
      let block = { sum: item.wish - offset, count: 1, from: at };
      while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].count > block.sum / block.count) {
        const before = blocks.pop();
        block = { sum: before.sum + block.sum, count: before.count + block.count, from: before.from };
      }
      blocks.push(block);
    });
    blocks.forEach((block, number) => {
      const end = number + 1 < blocks.length ? blocks[number + 1].from : row.length;
      for (let at = block.from; at < end; at++) row[at].x = block.sum / block.count + row[at].offset;
    });
  };
  const sweep = (sequence, sides) => {
    for (const row of sequence) {
      for (const item of row) {
        // What computes sizes goes where there is room; data decides where the rest stands.
        const all = sides.flatMap(side => item[side]), data = all.filter(other => !other.aside), near = data.length ? data : all;
        item.wish = near.length ? near.reduce((sum, other) => sum + other.x, 0) / near.length : item.x;
      }
      settle(row);
    }
  };
  for (let round = 0; round < 5; round++) { sweep(rows, ["up"]); sweep([...rows].reverse(), ["down"]); }
  sweep(rows, ["up", "down"]);
}

export function layout() {
  state.scene = buildScene();
  const measure = (font, key) => { pen.font = font; for (const box of state.scene.boxes) box.width = Math.max(box.width, Math.min(pen.measureText(box[key]).width + 26, 300)); };
  state.scene.boxes.forEach(box => { box.width = 90; });
  measure(FONTS.title, "title"); measure(FONTS.label, "label"); measure(FONTS.detail, "detail");
  layers(state.scene);
  const rows = route(state.scene);
  order(rows); place(rows);
  state.scene.boxes.forEach(box => { box.y = box.layer * ROW; });
  state.scene.edges.forEach(edge => edge.bends.forEach(bend => { bend.y = bend.layer * ROW; }));
  const xs = state.scene.boxes.map(box => box.x), ys = state.scene.boxes.map(box => box.y);
  state.scene.bounds = xs.reduce((b, x, at) => ({
    left: Math.min(b.left, x - state.scene.boxes[at].width / 2), right: Math.max(b.right, x + state.scene.boxes[at].width / 2),
    top: Math.min(b.top, ys[at]), bottom: Math.max(b.bottom, ys[at] + HEIGHT),
  }), { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity });
}
