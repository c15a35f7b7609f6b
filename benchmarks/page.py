"""The page of a large graph in Chromium: time to the first paint, and frame rate while dragging.

The graph is the block of the tests, repeated up to the requested number of nodes; groups are closed, then all open with
shape nodes, at several zoom levels. Bounds: two seconds to the first paint, sixty frames a second.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from dumps import stacked
from graph_quant.dumps import Costs, from_graph, to_html

sys.path.append(str(Path(__file__).parents[1]))
from tests.support.browser import chromium

FRAMES = 180
_TIMES = """
const [painted] = performance.getEntriesByName("first-contentful-paint");
const [page] = performance.getEntriesByType("navigation");
return {"first paint ms": Math.round(painted.startTime), "ready ms": Math.round(page.domContentLoadedEventEnd)};
"""
_OPEN = """
const [pane] = graphQuant.panes, start = performance.now();
pane.shapes = true; pane.openAll(true);
return Math.round(performance.now() - start);
"""
# Moves the pointer once for each frame, and measures frame intervals and drawing times.
_DRAG = """
const [frames, zoom, done] = arguments, [pane] = graphQuant.panes, {canvas, view} = pane, draw = pane.draw.bind(pane);
if (zoom) { view.zoom = zoom; view.x = canvas.clientWidth / 2 - zoom * pane.scene.bounds.right / 2; view.y = -zoom * pane.scene.bounds.bottom / 2; }
canvas.setPointerCapture = () => {};
const send = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, {clientX: x, clientY: y, pointerId: 1, buttons: 1, bubbles: true}));
const drawn = [], came = [], middle = list => list.sort((a, b) => a - b)[list.length >> 1];
pane.draw = () => { const start = performance.now(); draw(); drawn.push(performance.now() - start); };
send("pointerdown", 400, 400);
const step = time => {
  came.push(time);
  send("pointermove", 400 + 200 * Math.sin(came.length / 8), 400 + 150 * Math.cos(came.length / 11));
  if (came.length < frames) { requestAnimationFrame(step); return; }
  send("pointerup", 400, 400); pane.draw = draw;
  const gaps = came.slice(1).map((time, at) => time - came[at]);
  done({"frames/s": Math.round(1000 * gaps.length / (came[frames - 1] - came[0])), "frame ms": middle(gaps).toFixed(1), "drawing ms": middle(drawn).toFixed(2), boxes: pane.scene.boxes.length, edges: pane.scene.edges.length});
};
requestAnimationFrame(step);
"""  # noqa: E501


def measure(nodes: int = 10_000) -> dict[str, dict[str, Any]]:
    """Figures of the page when it opens, and while it is dragged."""
    browser = chromium()
    if browser is None:
        return {"no Chromium with its driver here": {}}
    dump = from_graph(stacked(nodes))
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.html"
            path.write_text(to_html(dump, Costs(dump)), encoding="utf-8")
            browser.set_script_timeout(300)
            browser.get(path.as_uri())
            rows = {"opening": {**browser.execute_script(_TIMES), "MiB": round(path.stat().st_size / 2**20, 1)}}
            rows["dragging the outline"] = browser.execute_async_script(_DRAG, FRAMES, 0)
            rows["opening all groups"] = {"ms": browser.execute_script(_OPEN)}
            for zoom in (0.01, 0.05, 0.15, 0.3, 0.8):
                rows[f"dragging all at zoom {zoom}"] = browser.execute_async_script(_DRAG, FRAMES, zoom)
    finally:
        browser.quit()
    return rows
