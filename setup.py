"""Builds the host NPU (a small C library under CANN's names) and the package's own machine code into the package."""

import runpy
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.extension import Extension

SHIM = Path("graph_quant/host/shim")
NATIVE = Path("graph_quant/native")
NATIVE_LIBRARY = "libgraph_quant_native.so"
# torch_npu's libraries ask for the aliases by name too; each is an empty library that leads to the runtime.
LIBRARY = runpy.run_path("graph_quant/host/library.py")
RUNTIME, ALIASES = LIBRARY["RUNTIME"], LIBRARY["ALIASES"]
COMPILE = ["-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]
# A refused C++ call throws through these C frames.
COMPILE += ["-fexceptions", "-funwind-tables"]


class BuildHostNpu(build_ext):
    """Compiles the shim instead of a Python extension module."""

    def run(self) -> None:
        root = Path() if self.inplace or self.editable_mode else Path(self.get_finalized_command("build_py").build_lib)
        target = root / "graph_quant/host/lib"
        target.mkdir(parents=True, exist_ok=True)
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if compiler is None:
            raise SystemExit(
                "graph-quant: a C compiler is needed to build the host NPU, and none of cc, gcc, clang was found; "
                "install one (Debian, Ubuntu: apt-get install gcc) and try again"
            )
        self.link(
            compiler,
            target,
            RUNTIME,
            [str(source) for source in sorted(SHIM.glob("*.c"))],
            ["-ldl", "-lpthread"],
        )
        for alias in ALIASES:
            runtime = ["-Wl,--no-as-needed", f"-L{target}", "-lascendcl", "-Wl,-rpath,$ORIGIN"]
            self.link(compiler, target, alias, ["-x", "c", "/dev/null", "-x", "none"], runtime)
        # A product and a sum are rounded one after the other, as torch rounds them. Unlike -O2, -O3 leaves the sums of
        # a loop in the registers where they are.
        native = root / NATIVE
        native.mkdir(parents=True, exist_ok=True)
        sources = [str(source) for source in sorted(NATIVE.glob("*.c"))]
        self.link(compiler, native, NATIVE_LIBRARY, sources, ["-O3", "-ffp-contract=off"])

    def link(self, compiler: str, target: Path, name: str, sources: list[str], libraries: list[str]) -> None:
        command = [compiler, *COMPILE, f"-Wl,-soname,{name}", "-o", str(target / name), *sources, *libraries]
        if subprocess.run(command).returncode != 0:
            raise SystemExit(f"graph-quant: {compiler} could not build {name}; its message stands above")

    def get_outputs(self) -> list[str]:
        library = Path(self.build_lib) / "graph_quant/host/lib"
        native = str(Path(self.build_lib) / NATIVE / NATIVE_LIBRARY)
        return [*(str(library / name) for name in (RUNTIME, *ALIASES)), native]

    def get_output_mapping(self) -> dict[str, str]:
        return {}

    def get_source_files(self) -> list[str]:
        return [str(path) for path in (*sorted(SHIM.iterdir()), *sorted(NATIVE.glob("*.[ch]")))]


class AnyPythonWheel(bdist_wheel):
    """The library is tied to a platform, not to a Python version."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


class BinaryDistribution(Distribution):
    """Marks the wheel as platform-specific."""

    def has_ext_modules(self) -> bool:
        return True


def _beside(folder: str) -> list[str]:
    """The packages of a folder that stands beside the package and is imported as a part of it."""
    return [f"graph_quant.{folder}", *(f"graph_quant.{folder}.{name}" for name in find_packages(folder))]


setup(
    packages=[
        *find_packages(include=["graph_quant", "graph_quant.*"]),
        *_beside("converters"),
        *_beside("meta"),
    ],
    distclass=BinaryDistribution,
    ext_modules=[Extension("graph_quant.host.lib", sources=[])],
    cmdclass={"build_ext": BuildHostNpu, "bdist_wheel": AnyPythonWheel},
    options={"egg_info": {"egg_base": "."}},  # it would stand among the modules that go beside the package
)
