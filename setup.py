"""Builds the host NPU (a small C library under CANN's names) and the package's own machine code into the package."""

import os
import re
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
# A wheel runs where glibc is as old as this one, as torch's own wheels do.
OLDEST_GLIBC = (2, 28)
# A refused C++ call throws through these C frames.
COMPILE += ["-fexceptions", "-funwind-tables"]


class BuildHostNpu(build_ext):
    """Compiles the shim instead of a Python extension module."""

    def run(self) -> None:
        root = Path() if self.inplace or self.editable_mode else Path(self.get_finalized_command("build_py").build_lib)
        target = root / "graph_quant/host/lib"
        target.mkdir(parents=True, exist_ok=True)
        names = (os.environ.get("CC", ""), "cc", "gcc", "clang")
        compiler = next((path for name in names if name and (path := shutil.which(name))), None)
        if names[0] and not shutil.which(names[0]):
            raise SystemExit(f"graph-quant: the C compiler that CC names, {names[0]}, was not found")
        if compiler is None:
            raise SystemExit(
                "graph-quant: a C compiler is needed to build the host NPU, and none of cc, gcc, clang was found; "
                "install one (Debian, Ubuntu: apt-get install gcc) and try again"
            )
        self.link(
            compiler,
            target,
            RUNTIME,
            ["-include", str(SHIM / "glibc.h"), *map(str, sorted(SHIM.glob("*.c")))],
            # Before glibc 2.34 they are not a part of libc.
            ["-Wl,--no-as-needed", "-l:libdl.so.2", "-l:libpthread.so.0", "-Wl,--as-needed"],
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
    """The libraries are tied to a platform, not to a Python version."""

    def get_tag(self) -> tuple[str, str, str]:
        platform = super().get_tag()[2]
        root = Path(self.bdist_dir or "")
        needed = max((version for path in root.rglob("*.so") for version in glibc_versions(path)), default=None)
        if platform.startswith("linux_") and needed and needed <= OLDEST_GLIBC:
            platform = platform.replace("linux_", "manylinux_{}_{}_".format(*OLDEST_GLIBC), 1)
        return ("py3", "none", platform)


def glibc_versions(library: Path) -> set[tuple[int, ...]]:
    """The versions of glibc whose symbols a library asks for."""
    names = re.findall(rb"\0GLIBC_([0-9.]+)(?=\0)", library.read_bytes())
    return {tuple(map(int, name.split(b"."))) for name in names}


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
