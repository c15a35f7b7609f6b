"""The built wheel: its contents, and that it works when installed."""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import graph_quant
import pytest
from elftools.elf.elffile import ELFFile
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


def test_wheel_fits_every_python_and_glibc_2_28(wheel) -> None:
    """Independent of the build: pyelftools reads the versions of the symbols that the libraries ask for."""
    assert wheel.name == f"graph_quant-{graph_quant.__version__}-py3-none-manylinux_2_28_{platform.machine()}.whl"
    libraries = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
    assert len(libraries) > 5
    for name in libraries:
        with zipfile.ZipFile(wheel).open(name) as file:
            assert max(_glibc(ELFFile(file))) <= (2, 28), name


def _glibc(library: ELFFile) -> list[tuple[int, ...]]:
    """The versions of glibc that a library asks for."""
    required = library.get_section_by_name(".gnu.version_r")
    needed = {version.name for _, versions in required.iter_versions() for version in versions}
    return [tuple(map(int, version[6:].split("."))) for version in needed if version.startswith("GLIBC_")]


def test_wheel_installs_and_runs_without_a_compiler(wheel, tmp_path) -> None:
    """The environment sees torch and the other dependencies through a .pth file."""
    venv.create(tmp_path / "clean", with_pip=False)
    python = tmp_path / "clean" / "bin" / "python"
    (site,) = (tmp_path / "clean" / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = str(tmp_path / "clean" / "bin")
    for tool in ("cc", "gcc", "clang"):
        assert shutil.which(tool, path=environment["PATH"]) is None
    (tmp_path / "index").mkdir()
    shutil.copy(wheel, tmp_path / "index")
    install = ["-m", "pip", "install", "--no-index", "--find-links", tmp_path / "index", "--target", site]
    # The environment of the tests has the package itself, in editable form.
    subprocess.run([python, *install, "--quiet", "--no-deps", "graph-quant"], env=environment, check=True)
    code = "import graph_quant, torch; print(graph_quant.__file__, torch.ones(2, device='npu').sum().item())"
    done = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"{site}/graph_quant/__init__.py 2.0\n", done.stderr
    command = [python, "-m", "graph_quant", "operators", "npu_group_quant"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


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


def test_libraries_build_for_aarch64(tmp_path) -> None:
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    if compiler is None:
        pytest.skip("needs aarch64-linux-gnu-gcc (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross)")
    command = [sys.executable, "setup.py", "build", "--build-base", tmp_path]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "CC": compiler}, check=True, capture_output=True)
    libraries = [*tmp_path.rglob("*.so")]
    assert len(libraries) > 5
    for library in libraries:
        with library.open("rb") as file:
            elf = ELFFile(file)
            assert elf["e_machine"] == "EM_AARCH64"
            if elf.get_section_by_name(".gnu.version_r"):
                assert max(_glibc(elf)) <= (2, 28), library.name


def test_a_compiler_that_is_not_there_is_named(tmp_path) -> None:
    command = [sys.executable, "setup.py", "build", "--build-base", tmp_path]
    environment = {**os.environ, "CC": "no-such-gcc"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "the C compiler that CC names, no-such-gcc, was not found" in done.stderr


def test_clone_has_native_kernels() -> None:
    assert native.LIBRARY.exists(), "make setup builds it"
