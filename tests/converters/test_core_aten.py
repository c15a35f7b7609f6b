"""Every overload that PyTorch tags as core ATen is lowered."""

from pathlib import Path

import torch
from graph_quant.aten import core, lowering
from graph_quant.host.kernels import KERNELS, SIZE_KERNELS


def test_every_core_overload_is_lowered() -> None:
    overloads = core()
    assert len(overloads) == 193
    assert [str(overload) for overload in overloads if not lowering(overload).is_lowered] == []


def test_the_nodes_are_read_from_the_text_and_from_what_it_is_given() -> None:
    aten = torch.ops.aten
    assert lowering(aten.atan2.default).nodes == ("Atan2",)
    assert lowering(aten.lt.Scalar).nodes == ("Less",)
    assert {"ArgMin", "ReduceMin", "ArgMinWithValue"} <= {*lowering(aten.min.dim).nodes}
    assert lowering(aten.fmod.Tensor).nodes == ("Mod",)


def test_a_stub_is_no_lowering() -> None:
    assert not lowering(torch.ops.aten._assert_async.msg).is_lowered
    assert not lowering(torch.ops.aten.linalg_lu.default).is_lowered


def test_the_host_has_kernels_for_the_nodes_of_this_package() -> None:
    """Only the nodes of this package: TorchAir's converters also name types of other chips."""
    ours = [entry for overload in core() if (entry := lowering(overload)).by == "graph_quant"]
    missing = {node for entry in ours for node in entry.nodes if node not in KERNELS and node not in SIZE_KERNELS}
    assert missing == set()


def test_the_table_says_how_and_what_was_checked() -> None:
    page = (Path(__file__).parents[2] / "docs" / "aten.md").read_text(encoding="utf-8")
    table = page.partition("| overload | how | by | GE nodes | checked |\n|---|---|---|---|---|\n")[2]
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table.splitlines()]
    lowerings = [lowering(overload) for overload in core()]
    assert [row[:4] for row in rows] == [
        (f.overload.removeprefix("aten."), f.how, f.by, ", ".join(f.nodes)) for f in lowerings
    ]
    counts = [tuple(map(int, row[4].split(" of "))) for row in rows]
    assert all(agreed <= checked for agreed, checked in counts)
    summary = f"{sum(agreed for agreed, _ in counts)} of {sum(checked for _, checked in counts)} calls agree"
    assert summary in page
