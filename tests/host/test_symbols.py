"""The symbols that torch_npu needs, computed from the installed wheel."""

import json

from graph_quant.cli import main
from graph_quant.host.elf import needs


def test_all_linked_symbols_are_exported() -> None:
    symbols = needs()
    assert symbols.missing == []
    assert len(symbols.linked) > 150, "the wheel's needs were not read"


def test_missing_symbol_is_named(monkeypatch, capsys) -> None:
    import graph_quant.host.elf as symbols

    real = symbols._unversioned_imports
    monkeypatch.setattr(symbols, "_unversioned_imports", lambda library: [*real(library), "aclrtInventedLater"])
    assert main(["symbols"]) == 1
    assert "  aclrtInventedLater" in capsys.readouterr().out


def test_command_prints_json(capsys) -> None:
    assert main(["symbols", "--json"]) == 0
    lists = json.loads(capsys.readouterr().out)
    assert "aclrtMalloc" in lists["linked"]
    assert "aclrtStreamQuery" in lists["implemented"]
    assert "aclmdlRICaptureBegin" in lists["implemented"]
    assert "HcclAllReduce" in lists["refused"]


def test_every_looked_up_name_is_classified() -> None:
    symbols = needs()
    assert symbols.unknown == []
    assert len(symbols.implemented) > 60
    # One of each library that torch_npu asks, by whatever name.
    assert {"aclmdlRIAddCondTask", "msptiSubscribe", "aclskOptimize"} <= {*symbols.implemented, *symbols.refused}
    assert {"mstxMarkA", "dcmi_init", "halGetDeviceInfo", "aclshmem_malloc"} <= {*symbols.optional}
    together = [*symbols.implemented, *symbols.refused, *symbols.optional, *symbols.not_symbols]
    assert sorted(together) == symbols.looked_up
