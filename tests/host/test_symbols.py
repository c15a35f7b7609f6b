"""What torch_npu needs to load, computed from the installed wheel."""

import json

from graph_quant.cli import main
from graph_quant.host.elf import needs


def test_the_host_npu_has_every_function_that_torch_npu_links_against() -> None:
    found = needs()
    assert found.missing == []
    assert len(found.linked) > 150, "the wheel's needs were not read"


def test_a_function_that_is_not_offered_is_named(monkeypatch, capsys) -> None:
    import graph_quant.host.elf as symbols

    real = symbols._unversioned_imports
    monkeypatch.setattr(symbols, "_unversioned_imports", lambda library: [*real(library), "aclrtInventedLater"])
    assert main(["symbols"]) == 1
    assert "  aclrtInventedLater" in capsys.readouterr().out


def test_the_command_prints_the_lists_as_json(capsys) -> None:
    assert main(["symbols", "--json"]) == 0
    lists = json.loads(capsys.readouterr().out)
    assert "aclrtMalloc" in lists["linked"]
    assert "aclrtStreamQuery" in lists["served"]
    assert "aclmdlRICaptureBegin" in lists["served"]
    assert "HcclAllReduce" in lists["refused"]


def test_every_name_that_is_looked_up_is_accounted_for() -> None:
    found = needs()
    assert found.unknown == []
    assert len(found.served) > 60
    # One of each library that torch_npu asks, by whatever name.
    assert {"aclmdlRIAddCondTask", "msptiSubscribe", "aclskOptimize"} <= {*found.served, *found.refused}
    assert {"mstxMarkA", "dcmi_init", "halGetDeviceInfo", "aclshmem_malloc"} <= {*found.elsewhere}
    together = [*found.served, *found.refused, *found.elsewhere, *found.words]
    assert sorted(together) == found.looked_up
