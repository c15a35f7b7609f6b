"""graph-quant enable and disable: one .pth file, there and gone again."""

import subprocess
import sys
from pathlib import Path

import pytest
from graph_quant.cli import enable, main


@pytest.fixture
def pth(tmp_path: Path, monkeypatch) -> Path:
    """The file that enable writes, in a folder of the test's own."""
    path = tmp_path / "graph_quant_host.pth"
    monkeypatch.setattr("graph_quant.cli.enable.enabling_file", lambda: path)
    monkeypatch.setattr("graph_quant.cli.disable.enabling_file", lambda: path)
    return path


def test_enable_writes_one_file_and_disable_leaves_no_trace(pth, tmp_path) -> None:
    assert main(["enable"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [pth.name]
    assert main(["enable"]) == 0, "twice is once"
    assert main(["disable"]) == 0
    assert list(tmp_path.iterdir()) == []
    assert main(["disable"]) == 0, "nothing to do is not an error"


def test_a_folder_that_cannot_be_written_is_reported_in_one_line(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr("graph_quant.cli.enable.enabling_file", lambda: tmp_path / "missing" / "x.pth")
    assert main(["enable"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def start(*paths: Path, code: str) -> str:
    """Start Python with these folders as site-packages, and nothing of the environment the tests run in."""
    add = "; ".join(f"site.addsitedir({str(path)!r})" for path in paths)
    command = [sys.executable, "-S", "-c", f"import site; {add}; {code}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert done.stderr == ""
    return done.stdout


def test_the_line_acts_on_import_of_torch_if_everything_is_installed(pth) -> None:
    main(["enable"])
    site, package = pth.parent, Path(enable.__file__).parent.parent
    (site / "torch.py").touch()
    ready = (
        "import sys; before = 'graph_quant' in sys.modules; import torch; print(before, 'graph_quant' in sys.modules)"
    )
    assert start(site, code=ready) == "False False\n", "graph_quant is gone: nothing happens, silently"
    (site / "graph_quant_start.py").symlink_to(package / "start" / "outside" / "graph_quant_start.py")
    (site / "torch_npu.py").touch()
    assert start(site, code=ready) == "False False\n", "graph_quant is gone but for its start-up module: the same"
    (site / "torch_npu.py").unlink()
    (site / "graph_quant").symlink_to(package)
    assert start(site, code=ready) == "False False\n", "no torch_npu: nothing happens"
    (site / "torch_npu.py").touch()
    assert start(site, code=ready.replace("import torch;", "")) == "False False\n", "no torch: nothing happens"
    code = "import sys; import torch; print(sys.modules['graph_quant.start.preload'].chosen() is not None)"
    (site / "graph_quant.pth").touch()
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import site; site.addsitedir({str(site)!r}); {code}"],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert done.stdout == "True\n", done.stderr


def test_the_file_is_in_the_site_packages_of_this_python() -> None:
    assert str(enable.enabling_file().parent) in sys.path
