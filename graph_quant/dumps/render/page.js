"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("graph"), pen = canvas.getContext("2d");
  const card = document.getElementById("card"), search = document.getElementById("search"), hits = document.getElementById("hits");
  const nodes = data.nodes, groups = data.groups;
  const groupOf = new Map();
  groups.forEach((group, index) => group.members.forEach(member => groupOf.set(member, index)));
  const folded = new Set(groups.keys());
  const readers = nodes.map(() => []);
  nodes.forEach((node, index) => node.inputs.forEach(input => readers[input.from].push({ to: index, input })));
  const FONTS = { title: "600 13px system-ui, sans-serif", label: "11px system-ui, sans-serif", detail: "10.5px ui-monospace, Menlo, Consolas, monospace" };
  const view = { x: 0, y: 0, zoom: 1 };
  let scene = null, selected = null, colours = {};

  // ---- what is drawn: a box for every node, or one for a folded group -------------------------------------------
  const boxOf = index => groupOf.has(index) && folded.has(groupOf.get(index)) ? `g${groupOf.get(index)}` : `n${index}`;

  function buildScene() {
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

  // ---- layout: layers by longest path, order by barycentre, places by least squares -----------------------------
  const GAP = 26, ROW = 100, HEIGHT = 50, LONGEST_ROUTE = 6;

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

  function layout() {
    scene = buildScene();
    const measure = (font, key) => { pen.font = font; for (const box of scene.boxes) box.width = Math.max(box.width, Math.min(pen.measureText(box[key]).width + 26, 300)); };
    scene.boxes.forEach(box => { box.width = 90; });
    measure(FONTS.title, "title"); measure(FONTS.label, "label"); measure(FONTS.detail, "detail");
    layers(scene);
    const rows = route(scene);
    order(rows); place(rows);
    scene.boxes.forEach(box => { box.y = box.layer * ROW; });
    scene.edges.forEach(edge => edge.bends.forEach(bend => { bend.y = bend.layer * ROW; }));
    const xs = scene.boxes.map(box => box.x), ys = scene.boxes.map(box => box.y);
    scene.bounds = xs.reduce((b, x, at) => ({
      left: Math.min(b.left, x - scene.boxes[at].width / 2), right: Math.max(b.right, x + scene.boxes[at].width / 2),
      top: Math.min(b.top, ys[at]), bottom: Math.max(b.bottom, ys[at] + HEIGHT),
    }), { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity });
  }

  // ---- drawing ----------------------------------------------------------------------------------------------------
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ground", "panel", "ink", "soft", "line", "accent", "input", "constant", "quantised", "plain", "group", "added", "changed", "removed"])
      colours[name] = style.getPropertyValue(`--${name}`).trim();
  }

  let frame = 0;
  const redraw = () => { if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); }); };

  function clip(text, width) {
    if (pen.measureText(text).width <= width) return text;
    let low = 0, high = text.length;
    while (low < high) { const middle = (low + high + 1) >> 1; if (pen.measureText(text.slice(0, middle) + "…").width <= width) low = middle; else high = middle - 1; }
    return text.slice(0, low) + "…";
  }

  function draw() {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.setTransform(ratio * view.zoom, 0, 0, ratio * view.zoom, ratio * view.x, ratio * view.y);
    const seen = { left: -view.x / view.zoom, top: -view.y / view.zoom, right: (width - view.x) / view.zoom, bottom: (height - view.y) / view.zoom };
    const chosen = selected === null ? null : scene.byId.get(boxOf(selected));
    for (const edge of scene.edges) drawEdge(edge, seen, chosen);
    for (const box of scene.boxes) {
      if (box.x + box.width / 2 < seen.left || box.x - box.width / 2 > seen.right || box.y + HEIGHT < seen.top || box.y > seen.bottom) continue;
      drawBox(box, box === chosen);
    }
  }

  function drawEdge(edge, seen, chosen) {
    const top = edge.from.y + HEIGHT, bottom = edge.to.y, near = chosen && (edge.from === chosen || edge.to === chosen);
    if (bottom < seen.top || top > seen.bottom || (edge.long && !near && view.zoom < 0.12)) return;
    const points = [{ x: edge.from.x, y: top }, ...edge.bends.map(bend => ({ x: bend.x, y: bend.y + HEIGHT / 2 })), { x: edge.to.x, y: bottom }];
    pen.beginPath(); pen.moveTo(points[0].x, points[0].y);
    for (let at = 1; at < points.length; at++) {
      const a = points[at - 1], b = points[at], middle = (a.y + b.y) / 2;
      pen.bezierCurveTo(a.x, middle, b.x, middle, b.x, b.y);
    }
    pen.strokeStyle = near ? colours.accent : edge.type.startsWith("int4") || edge.type.startsWith("int8") || edge.type.startsWith("uint8") ? colours.quantised : colours.soft;
    pen.globalAlpha = near ? 1 : edge.long ? 0.08 : edge.to.size || edge.from.size ? 0.3 : 0.6;
    pen.lineWidth = near ? 2 : 1.2;
    pen.setLineDash(edge.control ? [5, 4] : []);
    pen.stroke(); pen.setLineDash([]); pen.globalAlpha = 1;
    if (view.zoom > 0.35) {
      pen.beginPath(); pen.moveTo(edge.to.x, bottom); pen.lineTo(edge.to.x - 4, bottom - 7); pen.lineTo(edge.to.x + 4, bottom - 7); pen.closePath();
      pen.fillStyle = pen.strokeStyle; pen.globalAlpha = near ? 1 : edge.long ? 0.2 : 0.7; pen.fill(); pen.globalAlpha = 1;
    }
    if (view.zoom > 0.75 && !edge.control && (near || (!edge.long && edge.to.in.length <= 3))) {
      // Where several edges meet, their labels stand apart: near the producers.
      const a = points[points.length - 2], b = points[points.length - 1], share = edge.to.in.length > 1 ? 0.24 : 0.5;
      const x = a.x + (b.x - a.x) * share * share * (3 - 2 * share), y = a.y + (b.y - a.y) * share;
      pen.font = FONTS.detail; pen.textAlign = "center";
      const text = edge.type + (edge.count > 1 ? `  ×${edge.count}` : ""), wide = pen.measureText(text).width + 8;
      pen.fillStyle = colours.ground; pen.globalAlpha = 0.9; pen.fillRect(x - wide / 2, y - 8, wide, 14); pen.globalAlpha = 1;
      pen.fillStyle = near ? colours.accent : colours.soft; pen.fillText(text, x, y + 3);
    }
  }

  function drawBox(box, chosen) {
    const left = box.x - box.width / 2, colour = colours[box.mark] || colours[box.role];
    if (view.zoom < 0.22) {
      pen.fillStyle = colour; pen.fillRect(left, box.y, box.width, HEIGHT);
      if (chosen) { pen.strokeStyle = colours.accent; pen.lineWidth = 6 / view.zoom; pen.strokeRect(left, box.y, box.width, HEIGHT); }
      return;
    }
    pen.beginPath(); pen.roundRect(left, box.y, box.width, HEIGHT, 9);
    pen.fillStyle = colours.panel; pen.fill();
    pen.strokeStyle = chosen ? colours.accent : box.mark ? colour : colours.line; pen.lineWidth = chosen ? 3 : box.mark ? 2.5 : 1.2; pen.stroke();
    pen.beginPath(); pen.roundRect(left, box.y, 6, HEIGHT, [9, 0, 0, 9]); pen.fillStyle = colour; pen.fill();
    pen.textAlign = "left";
    pen.fillStyle = colours.ink; pen.font = FONTS.title;
    pen.fillText(clip(box.title, box.width - 22), left + 14, box.y + 16);
    pen.fillStyle = colours.soft; pen.font = FONTS.label; pen.fillText(clip(box.label, box.width - 22), left + 14, box.y + 30);
    pen.fillStyle = colour; pen.font = FONTS.detail; pen.fillText(clip(box.detail, box.width - 22), left + 14, box.y + 44);
  }

  // ---- moving -----------------------------------------------------------------------------------------------------
  function fit() {
    const b = scene.bounds, pad = 30, width = canvas.clientWidth, height = canvas.clientHeight;
    const whole = Math.min((width - 2 * pad) / (b.right - b.left), (height - 2 * pad) / (b.bottom - b.top));
    view.zoom = Math.min(Math.max(whole, 0.01), 1.4);
    view.x = width / 2 - view.zoom * (b.left + b.right) / 2;
    view.y = height / 2 - view.zoom * (b.top + b.bottom) / 2;
    redraw();
  }
  function start() {
    fit();
    // A tall graph shown whole is unreadable: begin at its top instead.
    if (view.zoom < 0.3) {
      view.zoom = 0.7;
      const first = scene.boxes.filter(box => !box.aside).sort((a, b) => a.y - b.y)[0] || scene.boxes[0];
      view.x = canvas.clientWidth / 2 - view.zoom * first.x; view.y = 60 - view.zoom * Math.max(first.y - ROW, scene.bounds.top); redraw();
    }
  }
  function zoomAt(x, y, factor) {
    const zoom = Math.min(Math.max(view.zoom * factor, 0.01), 4);
    view.x = x - (x - view.x) * zoom / view.zoom; view.y = y - (y - view.y) * zoom / view.zoom; view.zoom = zoom; redraw();
  }
  function centre(index) {
    const box = scene.byId.get(boxOf(index));
    if (view.zoom < 0.5) view.zoom = 0.9;
    view.x = canvas.clientWidth / 2 - view.zoom * box.x; view.y = canvas.clientHeight / 2 - view.zoom * (box.y + HEIGHT / 2); redraw();
  }
  const boxAt = (x, y) => {
    const gx = (x - view.x) / view.zoom, gy = (y - view.y) / view.zoom;
    return scene.boxes.find(box => Math.abs(gx - box.x) <= box.width / 2 && gy >= box.y && gy <= box.y + HEIGHT);
  };
  let drag = null;
  canvas.addEventListener("pointerdown", event => { drag = { x: event.offsetX, y: event.offsetY, vx: view.x, vy: view.y, moved: false }; canvas.setPointerCapture(event.pointerId); canvas.classList.add("dragging"); });
  canvas.addEventListener("pointermove", event => {
    if (!drag) { canvas.style.cursor = boxAt(event.offsetX, event.offsetY) ? "pointer" : ""; return; }
    if (Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > 4) drag.moved = true;
    if (drag.moved) { view.x = drag.vx + event.offsetX - drag.x; view.y = drag.vy + event.offsetY - drag.y; redraw(); }
  });
  canvas.addEventListener("pointerup", event => {
    canvas.classList.remove("dragging");
    if (drag && !drag.moved) { const box = boxAt(event.offsetX, event.offsetY); box ? select(box.node, box.group) : clear(); }
    drag = null;
  });
  canvas.addEventListener("dblclick", event => { const box = boxAt(event.offsetX, event.offsetY); if (box && groupOf.has(box.node)) toggle(groupOf.get(box.node)); });
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    zoomAt(event.offsetX, event.offsetY, Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)));
  }, { passive: false });
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
  addEventListener("keydown", event => {
    if (event.target === search) { if (event.key === "Escape") { search.blur(); hits.hidden = true; } return; }
    if (event.target.tagName === "INPUT") return;
    if (event.key === "/") { event.preventDefault(); search.focus(); }
    else if (event.key === "f") fit();
    else if (event.key === "Escape") clear();
    else if (event.key === "+" || event.key === "=") zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, 1.25);
    else if (event.key === "-") zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, 0.8);
  });

  // ---- folding ----------------------------------------------------------------------------------------------------
  function toggle(group) { folded.has(group) ? folded.delete(group) : folded.add(group); relayout(groups[group].head); }
  function relayout(anchor) {
    layout();
    const button = document.getElementById("fold");
    button.hidden = !groups.length; button.textContent = folded.size ? "Unfold all" : "Fold all";
    if (anchor !== undefined) { centre(anchor); select(anchor, folded.has(groupOf.get(anchor)) ? groupOf.get(anchor) : null); } else redraw();
  }
  document.getElementById("fold").addEventListener("click", () => {
    if (folded.size) folded.clear(); else groups.forEach((_, index) => folded.add(index));
    relayout(); start();
  });
  document.getElementById("fit").addEventListener("click", fit);

  // ---- the card. Text from the dump only ever becomes text nodes. ---------------------------------------------------
  function make(tag, content, properties = {}) {
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

  function select(index, group) {
    selected = index;
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
  function clear() {
    selected = null; delete card.dataset.node;
    card.replaceChildren(make("h2", data.title), ...data.summary.map(([kind, text]) => make("p", text, { className: `line ${kind}` })),
      make("p", "Drag to move, scroll to zoom, click a node for its card, double-click an idiom to unfold it.", { className: "kind" }));
    redraw();
  }
  function reveal(index) {
    const group = groupOf.get(index);
    if (group !== undefined && folded.has(group) && groups[group].head !== index) { folded.delete(group); relayout(); }
    centre(index); select(index, folded.has(group) ? group : null);
  }

  // ---- search -----------------------------------------------------------------------------------------------------
  const MOST_HITS = 50;
  const haystack = nodes.map(node => [node.name, node.type, ...node.outputs.map(output => output.type), ...node.source.map(pair => pair[1])].join("\n").toLowerCase());
  function find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const found = nodes.map((_, index) => index).filter(index => words.every(word => haystack[index].includes(word)));
    const exact = text.trim().toLowerCase();
    return found.sort((a, b) => (nodes[b].name.toLowerCase() === exact) - (nodes[a].name.toLowerCase() === exact));
  }
  let active = 0;
  function showHits() {
    const found = find(search.value); active = 0;
    hits.replaceChildren(...found.slice(0, MOST_HITS).map((index, at) => make("li", [nodes[index].name, make("span", nodes[index].type)], { className: at ? "" : "active", onclick: () => { hits.hidden = true; reveal(index); } })));
    hits.append(make("li", found.length ? `${found.length} found` : "nothing found", { className: "more" }));
    hits.hidden = !search.value.trim();
  }
  search.addEventListener("input", showHits);
  search.addEventListener("focus", showHits);
  search.addEventListener("keydown", event => {
    const items = [...hits.querySelectorAll("li:not(.more)")];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      items[active]?.classList.remove("active");
      active = Math.min(Math.max(active + (event.key === "ArrowDown" ? 1 : -1), 0), items.length - 1);
      items[active]?.classList.add("active"); items[active]?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") { items[active]?.click(); search.blur(); }
  });
  addEventListener("pointerdown", event => { if (!event.target.closest(".search")) hits.hidden = true; });

  document.getElementById("title").textContent = data.title;
  document.title = data.title;
  readColours(); relayout(); clear(); start();
  // For tests and for the console: where a node is on the screen, and what is drawn.
  window.graphQuant = {
    nodes: nodes.length, drawn: () => scene.boxes.length, find, unfold: () => { folded.clear(); relayout(); start(); },
    where: name => { const box = scene.byId.get(boxOf(nodes.findIndex(node => node.name === name))); return { x: view.x + view.zoom * box.x, y: view.y + view.zoom * (box.y + HEIGHT / 2) }; },
  };
})();
