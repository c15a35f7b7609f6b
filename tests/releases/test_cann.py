"""The host NPU reports the release of CANN that the installed torch_npu was released for."""

from __future__ import annotations

import pytest
import torch_npu
from graph_quant.releases import cann
from graph_quant.start import preload


# The table of versions in torch_npu's COMPATIBILITY.md.
@pytest.mark.parametrize(
    ("release", "version"),
    [
        ("2.12.0.post2", "9.1.0"),
        ("2.11.0", "9.1.0"),
        ("2.10.0.post6", "9.1.0"),
        ("2.10.0.post4", "9.1.0"),
        ("2.10.0", "9.0.0"),
        ("2.9.0.post8", "9.1.0"),
        ("2.9.0.post6", "9.1.0"),
        ("2.9.0.post2", "9.0.0"),
        ("2.9.0", "8.5.0"),
        ("2.8.0.post4", "9.0.0"),
        ("2.8.0.post2", "8.5.0"),
        ("2.8.0", "8.3.0"),
        ("2.7.1.post10", "9.1.0"),
        ("2.7.1.post4", "9.0.0"),
        ("2.7.1.post2", "8.5.0"),
        ("2.14.0", "9.1.0"),
        ("", "9.1.0"),
    ],
)
def test_release_of_cann_follows_torch_npu(release: str, version: str) -> None:
    assert cann.for_torch_npu(release) == version


def test_runtime_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cann.VARIABLE, raising=False)
    assert cann.for_torch_npu(torch_npu.__version__.partition("+")[0]) == cann.version()
    if preload.chosen() == preload.HOST:
        assert torch_npu.npu.utils.get_cann_version() == cann.version()


@pytest.mark.parametrize(("requested", "version"), [("9.0", "9.0.0"), ("8.5.0", "8.5.0")])
def test_variable_sets_another(monkeypatch: pytest.MonkeyPatch, requested: str, version: str) -> None:
    monkeypatch.setenv(cann.VARIABLE, requested)
    assert preload._check_cann() == version


@pytest.mark.parametrize("requested", ["9", "9.1.0.1", "nine", "9.1.RC1"])
def test_what_is_no_version_is_refused(monkeypatch: pytest.MonkeyPatch, requested: str) -> None:
    monkeypatch.setenv(cann.VARIABLE, requested)
    with pytest.raises(preload.HostNpuError, match=r"GRAPH_QUANT_CANN must be a version of CANN such as 9\.1"):
        preload._check_cann()
