"""The GE graph of every operator and destination, with sizes known and unknown, as text to read in review.

`GRAPH_QUANT_UPDATE_GOLDEN=1 pytest tests/converters/test_golden.py` writes the files anew.
"""

import os
from pathlib import Path

import pytest

from support.all_calls import GOLDEN, STATIC
from support.lowering import lower, text

FOLDER = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("GRAPH_QUANT_UPDATE_GOLDEN"))
KEPT = [(name, sizes) for sizes in ("static", "dynamic") for name in GOLDEN if sizes == "static" or name not in STATIC]
NODES = {"int8": 1, "uint8": 1, "int32": 1, "int4": 4}


@pytest.mark.parametrize(("name", "sizes"), KEPT, ids=[f"{sizes}-{name}" for name, sizes in KEPT])
def test_golden(name: str, sizes: str) -> None:
    function, args = GOLDEN[name]
    graph = text(lower(function, *args, dynamic=sizes == "dynamic"))
    golden = FOLDER / f"{name}-{sizes}.txt"
    if UPDATE:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(graph)
    assert graph == golden.read_text()


def test_every_golden_file_has_its_case() -> None:
    expected = {f"{name}-{sizes}.txt" for name, sizes in KEPT}
    assert {path.name for path in FOLDER.iterdir()} == expected


@pytest.mark.parametrize("name", ["group_quant", "quantize_multiplying", "dynamic_quant", "dynamic_quant_asymmetric"])
@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("sizes", ["static", "dynamic"])
def test_node_counts(name: str, kind: str, sizes: str) -> None:
    mode = "-pertoken" if name.startswith("dynamic") else ""
    lines = (FOLDER / f"{name}-{kind}{mode}-{sizes}.txt").read_text().splitlines()
    computing = [line for line in lines if " = " in line and "Cast(" not in line.replace("Bitcast(", "")]
    assert len(computing) == NODES[kind]
