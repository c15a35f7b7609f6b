"""The committed index of operators is what the modules declare."""

from __future__ import annotations

import sys

import pytest
from graph_quant import discovery, generate_index, operator_index


def test_index_is_fresh() -> None:
    assert generate_index.generate() == generate_index.FILE.read_text(), (
        "graph_quant/operator_index.py is out of date: run `make index` (python -m graph_quant.generate_index)"
    )


def test_stale_entry_names_the_command(monkeypatch) -> None:
    monkeypatch.setitem(operator_index.RECORDS, "npu::npu_gone", "graph_quant.meta.quant.gone")
    with pytest.raises(ImportError, match=r"lists graph_quant\.meta\.quant\.gone: regenerate it by `make index`"):
        discovery.Index("RECORDS").load("npu::npu_gone")


def test_error_inside_an_indexed_module_is_not_hidden(monkeypatch, tmp_path) -> None:
    (tmp_path / "needs_absent.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        discovery.import_modules(["needs_absent"])
    assert "needs_absent" not in sys.modules
