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
    monkeypatch.setattr(doctor, "_PACKAGES", ("no_such_torch",))  # ends the examination soon
    main(["doctor"])
    assert "enabled     no" in capsys.readouterr().out
    (tmp_path / "graph_quant_host.pth").touch()
    main(["doctor"])
    assert "enabled     yes" in capsys.readouterr().out


def test_an_untested_release_is_a_warning_and_no_refusal(monkeypatch, capsys) -> None:
    monkeypatch.setattr(doctor, "TESTED", ("1.0", "1.1"))
    monkeypatch.setattr(doctor, "_modes", lambda _: None)
    assert main(["doctor"]) == 0
    assert "is installed; this release is tested with 1.0, 1.1\n" in capsys.readouterr().out


def test_every_feature_works_or_has_a_reason(monkeypatch, capsys) -> None:
    from graph_quant import modes

    monkeypatch.setattr(modes, "_MODULES", {"npugraph_ex": "torch_npu.dynamo.no_such_mode"})
    monkeypatch.setenv("PATH", "")
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["modes"]["npugraph_ex"] == "off here: the installed torch_npu has no torch_npu.dynamo.no_such_mode"
    assert report["features"]["engine inductor"] == "off here: no C++ compiler on PATH"
    assert report["features"]["ranks"] == "works"


@pytest.mark.parametrize(
    ("requirement", "problems"),
    [("torch==2.10.0+cpu", 1), ("torch ==2.10.0", 1), ("torch==2.13.0.*", 0), ("torch==2.13.1", 0), ("numpy", 0)],
)
def test_torch_of_another_torch_npu_is_found_before_loading(monkeypatch, capsys, requirement, problems) -> None:
    monkeypatch.setattr(doctor, "requires", lambda _: [requirement, "pyyaml"])
    monkeypatch.setattr(doctor, "_modes", lambda _: None)
    assert main(["doctor"]) == problems
    shown = capsys.readouterr().out
    assert ("is built for torch 2.10, and torch 2.13.0" in shown) == bool(problems)
    assert ("runtime" in shown) != bool(problems)


def test_first_error_of_an_extension_is_reported(run_python) -> None:
    done = run_python("""
import graph_quant
from graph_quant import doctor
from graph_quant.start import compiling

def fail(on_host):
    raise AttributeError("no attribute _moved\\nsecond line")

compiling.extend = fail
diagnosis = doctor.examine()
print(*(problem.what for problem in diagnosis.problems), diagnosis.warnings)
""")
    what = "graph_quant cannot extend torch_npu.dynamo.torchair: AttributeError: no attribute _moved"
    assert done.stdout == f"{what} []\n", done.stderr


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
            lambda m: m.setattr(doctor, "_PACKAGES", ("no_such_torch",)),
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
