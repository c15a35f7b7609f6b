// ---- a layered drawing of one group: rows by longest path, order by barycentre, x by least squares ---------
// ELK and dagre do this too; on 10,000 nodes ELK takes minutes and dagre runs out of stack, where this takes 0.4 s of CPU.
// Independent of the page. Items have a width, a height, an order and maybe a port ("in" or "out"); edges have
// the items they join and the offsets from the middle where they leave and enter. Items get x (of their middle) and y,
// edges points.
const GAP = 22, ROW_GAP = 40, PORT_GAP = 18, BEND_WIDTH = 8, LONGEST_ROUTE = 80, ROUNDS = 4;

function rank(items) {
  const waiting = new Map(items.map(item => [item, item.ins.length])), inOrder = [...items].sort((a, b) => a.order - b.order);
  const ready = inOrder.filter(item => !item.ins.length), ranked = new Set(ready);
  let next = 0;
  for (let at = 0; at < items.length; at++) {
    if (at === ready.length) {
      // A cycle, for example groups of a module that is called twice: take the first remaining item.
      while (ranked.has(inOrder[next])) next++;
      ready.push(inOrder[next]); ranked.add(inOrder[next]);
    }
    for (const edge of ready[at].outs) {
      edge.back = ranked.has(edge.to);
      if (edge.back) continue;
      edge.to.layer = Math.max(edge.to.layer, ready[at].layer + 1);
      waiting.set(edge.to, waiting.get(edge.to) - 1);
      if (!waiting.get(edge.to)) { ready.push(edge.to); ranked.add(edge.to); }
    }
  }
  return ready;
}

function layers(items) {
  for (const item of items) item.layer = item.port === "in" ? 0 : 1;
  const sorted = rank(items);
  // Items without inputs are right above their first reader.
  for (const item of sorted.reverse()) {
    const readers = item.outs.filter(edge => !edge.back);
    if (!item.port && !item.ins.length && readers.length) item.layer = Math.max(1, Math.min(...readers.map(edge => edge.to.layer)) - 1);
  }
  const last = items.reduce((most, item) => item.port === "out" ? most : Math.max(most, item.layer), 0) + 1;
  for (const item of items) if (item.port === "out") item.layer = last;
}

function join(above, below, leaves, enters, weight) {
  above.down.push({ item: below, shift: enters - leaves, weight });
  below.up.push({ item: above, shift: leaves - enters, weight });
}

function route(items, edges) {
  const rows = [];
  const put = item => { item.up = []; item.down = []; (rows[item.layer] ||= []).push(item); };
  items.forEach(put);
  for (const edge of edges) {
    edge.bends = [];
    const span = edge.to.layer - edge.from.layer;
    edge.long = edge.back || span > LONGEST_ROUTE;
    if (edge.long) continue;
    let last = edge.from, leaves = edge.leaves;
    for (let layer = edge.from.layer + 1; layer < edge.to.layer; layer++) {
      const bend = { layer, width: BEND_WIDTH, height: 0, order: edge.from.order };
      put(bend); join(last, bend, leaves, 0, last === edge.from ? 2 : 8);
      edge.bends.push(bend); last = bend; leaves = 0;
    }
    join(last, edge.to, leaves, edge.enters, edge.bends.length ? 2 : 1);
  }
  return Array.from(rows, row => row || []);
}

function order(rows) {
  const number = row => row.forEach((item, at) => { item.at = at; });
  rows.forEach(row => { row.sort((a, b) => a.order - b.order); number(row); });
  const sweep = (sequence, side) => {
    for (const row of sequence) {
      for (const item of row) item.centre = item[side].length ? item[side].reduce((sum, near) => sum + near.item.at, 0) / item[side].length : item.at;
      row.sort((a, b) => a.centre - b.centre); number(row);
    }
  };
  for (let round = 0; round < ROUNDS; round++) { sweep(rows, "up"); sweep([...rows].reverse(), "down"); }
}

// Pool adjacent violators: the positions closest to the desired ones that keep order and distance.
function settle(row) {
  const blocks = [];
  let offset = 0;
  row.forEach((item, at) => {
    if (at) offset += (row[at - 1].width + item.width) / 2 + GAP;
    item.offset = offset;
    let block = { sum: (item.desired - offset) * item.weight, weight: item.weight, from: at };
    while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].weight > block.sum / block.weight) {
      const before = blocks.pop();
      block = { sum: before.sum + block.sum, weight: before.weight + block.weight, from: before.from };
    }
    blocks.push(block);
  });
  blocks.forEach((block, number) => {
    const end = number + 1 < blocks.length ? blocks[number + 1].from : row.length;
    for (let at = block.from; at < end; at++) row[at].x = block.sum / block.weight + row[at].offset;
  });
}

function assignX(rows) {
  for (const row of rows) { let x = 0; for (const item of row) { item.x = x + item.width / 2; x += item.width + GAP; } }
  const sweep = (sequence, sides) => {
    for (const row of sequence) {
      for (const item of row) {
        let sum = 0, weight = 0;
        for (const side of sides) for (const near of item[side]) { sum += near.weight * (near.item.x + near.shift); weight += near.weight; }
        item.desired = weight ? sum / weight : item.x; item.weight = Math.max(weight, 1);
      }
      settle(row);
    }
  };
  for (let round = 0; round < ROUNDS; round++) { sweep(rows, ["up"]); sweep([...rows].reverse(), ["down"]); }
  sweep(rows, ["up", "down"]);
}

function stack(rows) {
  let y = 0;
  return rows.map((row, at) => {
    const height = row.reduce((most, item) => Math.max(most, item.height), 0), isPorts = row.some(item => item.port === "in");
    for (const item of row) item.y = y + (height - item.height) / 2;
    const span = { top: y, bottom: y + height };
    if (row.length) y += height + (at + 1 < rows.length ? isPorts ? PORT_GAP : ROW_GAP : 0);
    return span;
  });
}

function trace(edge, rows) {
  const { from, to } = edge, start = from.x + edge.leaves, end = to.x + edge.enters, bottom = from.y + from.height;
  const points = [start, bottom];
  if (!edge.back && rows[from.layer].bottom > bottom) points.push(start, rows[from.layer].bottom);
  for (const bend of edge.bends) points.push(bend.x, rows[bend.layer].top, bend.x, rows[bend.layer].bottom);
  if (!edge.back && rows[to.layer].top < to.y) points.push(end, rows[to.layer].top);
  points.push(end, to.y);
  edge.points = points;
}

export function layered(items, edges) {
  for (const item of items) { item.ins = []; item.outs = []; }
  for (const edge of edges) { edge.from.outs.push(edge); edge.to.ins.push(edge); }
  layers(items);
  const rows = route(items, edges);
  order(rows); assignX(rows);
  const spans = stack(rows);
  let left = Infinity, right = -Infinity;
  for (const row of rows) for (const item of row) { left = Math.min(left, item.x - item.width / 2); right = Math.max(right, item.x + item.width / 2); }
  for (const row of rows) for (const item of row) item.x -= left;
  for (const edge of edges) trace(edge, spans);
  return { width: items.length ? right - left : 0, height: spans.length ? spans[spans.length - 1].bottom : 0 };
}
