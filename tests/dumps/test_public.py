"""Public dumps, which are not part of the project: GRAPH_QUANT_PUBLIC_DUMPS names folders of them, with ":" between."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from graph_quant import dumps
from graph_quant.dumps import Costs
from graph_quant.dumps.read.formats import looks_like_dump

FOLDERS = [Path(name) for name in os.environ.get("GRAPH_QUANT_PUBLIC_DUMPS", "").split(":") if name]
NAMES = ("ge_proto", "ge_onnx", "ge_readable", "torchair_docs")
RESNET_FLOPS = 7.7e9
# In this file GE has moved the strides of three stages to the stage before: there a 3x3 and a 1x1 convolution compute a
# quarter of the positions.
STRIDES_MOVED = "ge_proto_00000062"
SAVED = 3 * 2 * (3 / 4) * (56 * 56 * 64 * 64 * 9 + 56 * 56 * 256 * 64)


def _files() -> list[Path]:
    files: dict[str, Path] = {}
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*")):
            if any(name in path.name for name in NAMES) and path.is_file() and looks_like_dump(path):
                files.setdefault(hashlib.blake2b(path.read_bytes()).hexdigest(), path)
    return list(files.values())


pytestmark = pytest.mark.skipif(not FOLDERS, reason="GRAPH_QUANT_PUBLIC_DUMPS names no folder")
FILES = _files()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_read_inspected_and_written(command, path, tmp_path):
    for output in ("text", "json", "html", "onnx"):
        code, _, error = command("inspect", path, "--format", output, "-o", tmp_path / "out")
        assert (code, error) == (0, ""), output


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_linted_without_a_false_finding(path):
    # Gone through by hand: of these files only one has findings, three notes, all true.
    findings = [(finding.rule.id, finding.node) for finding in dumps.load(path).lint()]
    true = [("unreachable", "Gather"), ("needless-node", "Mul"), ("needless-node", "Cast_1")]
    assert findings == (true if path.name == "torchair_docs_presentation_2.py" else [])


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if any(name in p.name for name in ("afterUBMatch", "GraphFusionAfter", STRIDES_MOVED))],
    ids=str,
)
def test_resnet_counts_what_it_is_known_to_compute(path):
    flops = Costs(dumps.load(path)).total("flops")
    expected = RESNET_FLOPS - SAVED * (STRIDES_MOVED in path.name)
    assert abs(flops / expected - 1) < 0.02


def test_one_graph_in_two_formats_is_one_graph():
    pairs = [
        ("ge_proto_00000000_Build", "ge_onnx_00000000_graph_1"),
        ("ge_proto_00000001", "ge_onnx_00000001_graph_11"),
    ]
    for one, other in pairs:
        files = [next((path for path in FILES if name in path.name), None) for name in (one, other)]
        if None in files:
            pytest.skip(f"the folders hold no {one}")
        difference = dumps.load(files[0]).diff(dumps.load(files[1]))
        assert not difference, list(difference.lines())
