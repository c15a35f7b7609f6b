"""graph-quant doctor: what works here, what does not, how to fix it."""

import json

import pytest
from graph_quant import doctor
from graph_quant.cli import main


def test_a_healthy_machine(capsys) -> None:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["usable"] is True
    assert report["versions"]["torch"].startswith("2.13")
    assert report["runtime"] in ("host", "CANN")
    assert report["device"]["count"] >= 1
    assert report["problems"] == []
    assert set(report["modes"]) == {"torch.npu.graph", "max-autotune", "npugraph_ex", "reduce-overhead"}
    assert set(report["modes"].values()) == {"works"}
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("\nusable\n")


def test_it_shows_whether_plain_python_is_enabled(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(doctor, "enabling_file", lambda: tmp_path / "graph_quant_host.pth")
    monkeypatch.setattr(doctor, "_TESTED", {"no_such_torch": "1"})  # ends the examination soon
    main(["doctor"])
    assert "enabled     no" in capsys.readouterr().out
    (tmp_path / "graph_quant_host.pth").touch()
    main(["doctor"])
    assert "enabled     yes" in capsys.readouterr().out


def test_an_untested_release_is_a_warning_and_no_refusal(monkeypatch, capsys) -> None:
    monkeypatch.setattr(doctor, "_TESTED", {"torch": "1.0"})
    monkeypatch.setattr(doctor, "_modes", lambda _: None)
    assert main(["doctor"]) == 0
    assert "is installed; this release is tested with 1.0\n" in capsys.readouterr().out


def test_a_graph_mode_that_fails_is_named(monkeypatch, capsys) -> None:
    from graph_quant import modes

    def fail(_x: object) -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(modes, "MODES", {"a mode": fail, "another": lambda x: x})
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "graphs by a mode: first line\n" in shown
    assert "graphs by another: computes something else than eager execution" in shown


@pytest.mark.parametrize(
    ("break_it", "what", "fix"),
    [
        (
            lambda m: m.setattr(doctor, "_TESTED", {"no_such_torch": "1"}),
            "no_such_torch is not installed",
            "pip install",
        ),
        (
            lambda m: m.setattr(doctor.preload, "is_built", lambda: False),
            "libraries are missing",
            "make setup",
        ),
        (lambda m: m.setattr(doctor.preload, "choose", lambda: doctor.preload.NONE), "no CANN", "set_env.sh"),
        (lambda m: m.setenv("GRAPH_QUANT_HOST", "maybe"), "must be auto, on or off", "doctor --json"),
    ],
    ids=["missing", "not built", "switched off", "bad switch"],
)
def test_a_problem_comes_with_a_remedy(monkeypatch, capsys, break_it, what, fix) -> None:
    break_it(monkeypatch)
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert what in shown
    assert fix in shown
    assert shown.endswith("\nnot usable\n")
