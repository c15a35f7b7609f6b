"""The built wheel: its contents, and that it works when installed."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from graph_quant import native

ROOT = Path(__file__).parent.parent
BUILD = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in files.stdout.splitlines():
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([*BUILD, "--wheel-dir", folder, source], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_contents(wheel) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if not name.startswith("graph_quant-")}
    assert top == {"graph_quant", "graph_quant_pytest.py", "graph_quant_start.py"}
    for name in (
        "py.typed",
        "meta/quant/group_quant.py",
        "converters/quant/group_quant.py",
        "host/lib/libascendcl.so",
        "native/libgraph_quant_native.so",
        "host/lib/libhccl.so",
        "dumps/render/page/main.mjs",
        "dumps/render/page.html",
        "verification/report/page.html",
    ):
        assert f"graph_quant/{name}" in names
    sources = {p.relative_to(ROOT).as_posix() for p in (ROOT / "graph_quant").rglob("*.py")}
    beside = {name for name in sources if name.startswith("graph_quant/start/outside/")}
    assert {Path(name).name for name in beside} == top - {"graph_quant"}
    assert sources - beside <= set(names), "a subpackage is missing"


def test_wheel_tag(wheel) -> None:
    assert wheel.name.startswith("graph_quant-")
    assert "-py3-none-linux_" in wheel.name


def test_installed_wheel_works(wheel, tmp_path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        "import graph_quant, torch, graph_quant.meta, graph_quant.converters; "
        "print(graph_quant.meta.__file__, torch.ones(2, device='npu').sum().item())"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"{tmp_path}/graph_quant/meta/__init__.py 2.0\n", done.stderr


def test_build_without_compiler_names_the_requirement(tmp_path) -> None:
    command = [
        sys.executable,
        "setup.py",
        "build_ext",
        "--build-lib",
        str(tmp_path / "lib"),
        "--build-temp",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode != 0
    assert "graph-quant: a C compiler is needed to build the host NPU" in done.stderr


def test_clone_has_native_kernels() -> None:
    assert native.LIBRARY.exists(), "make setup builds it"
