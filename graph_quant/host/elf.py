"""Compares the symbols that torch_npu's libraries need of CANN with those that the host NPU exports.

The lists are computed from the installed wheel, so that a newer torch_npu shows its new symbols by name.
"""

import ctypes
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from elftools.elf.elffile import ELFFile

from .library import DIRECTORY, RUNTIME

# Names of CANN's C interfaces, as torch_npu's libraries contain them for a look-up at run time. aclnn names
# belong to the operator library (libopapi), which torch_npu can do without.
_LOOKED_UP = re.compile(
    rb"\0((?:acl(?!nn)|Hccl|Hcom|Msprof|rt[A-Z]|mspti[A-Z]|mstx[A-Z]|hal[A-Z])[A-Za-z0-9]{4,63}"
    rb"|(?:dcmi|aclshmemx?)_[a-z0-9_]{3,63})(?=\0)"
)
# Looked up in optional libraries: the objects that operators of libopapi are called with, profiler markers (mstx),
# information about the card and its driver (dcmi, hal), and memory that cards share (aclshmem).
_OPTIONAL_NAMES = re.compile(
    r"acl(Create|Destroy)(BoolArray|IntArray|Scalar|ScalarList|Tensor|TensorList|AclOpExecutor)$|acl(GetViewShape|Rfft1D|Stft)"
    r"|mstx|hal|dcmi_|aclshmem"
)
# Names in messages and functions of torch_npu itself; CANN has no such function.
_NO_SYMBOLS = re.compile(r"Hccl(Allgather|Allreduce|ReduceScatterBase|CommList)|.*Face$|aclProfiling|aclQueryEvent")
# Libraries that torch_npu loads when one of their features is first used.
_OPTIONAL = ("libop_plugin_atb.so",)


@dataclass
class Needs:
    """The symbols that a wheel needs, each list sorted by name."""

    linked: list[str] = field(default_factory=list)  # required to load the library
    missing: list[str] = field(default_factory=list)  # linked, but not exported
    looked_up: list[str] = field(default_factory=list)  # looked up when a feature is first used
    implemented: list[str] = field(default_factory=list)  # looked up, and implemented
    refused: list[str] = field(default_factory=list)  # looked up, and fails with its name: it needs an NPU
    optional: list[str] = field(default_factory=list)  # of operators and tools that torch_npu does not require
    not_symbols: list[str] = field(default_factory=list)  # no function of CANN, only named like one
    unknown: list[str] = field(default_factory=list)  # looked up, and not exported


def needs() -> Needs:
    """Read the installed torch_npu and the host NPU."""
    libraries = [library for library in _libraries_of("torch_npu") if library.name not in _OPTIONAL]
    wanted: set[str] = set()
    looked_up: set[str] = set()
    for library in libraries:
        wanted.update(_unversioned_imports(library))
        looked_up.update(match.group(1).decode() for match in _LOOKED_UP.finditer(library.read_bytes()))
    c_library = ctypes.CDLL("libc.so.6")
    wanted = {name for name in wanted if not name.startswith(("Py", "_Py")) and not hasattr(c_library, name)}
    linked = wanted - _exported([*libraries, *_libraries_of("torch")], wanted)
    exported = _exported([Path(DIRECTORY) / RUNTIME], linked | looked_up)
    looked_up -= linked
    refused = _refused_names()
    symbols = Needs(sorted(linked), sorted(linked - exported), sorted(looked_up))
    for name in symbols.looked_up:
        if name in exported:
            (symbols.refused if name in refused else symbols.implemented).append(name)
        elif _OPTIONAL_NAMES.match(name):
            symbols.optional.append(name)
        else:
            (symbols.not_symbols if _NO_SYMBOLS.match(name) else symbols.unknown).append(name)
    return symbols


def _refused_names() -> set[str]:
    """Return the functions of the runtime that fail because they need an NPU."""
    runtime = ctypes.CDLL(str(Path(DIRECTORY) / RUNTIME))
    first = ctypes.c_char_p.in_dll(runtime, "host_refused_names")
    names = ctypes.cast(ctypes.byref(first), ctypes.POINTER(ctypes.c_char_p))
    listed: Iterator[bytes | None] = (names[index] for index in itertools.count())
    return {name.decode() for name in itertools.takewhile(lambda name: name is not None, listed) if name is not None}


def _libraries_of(package: str) -> list[Path]:
    """Return the shared libraries of an installed package, without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed")
    return sorted(path for folder in spec.submodule_search_locations for path in Path(folder).rglob("*.so"))


def _unversioned_imports(library: Path) -> Iterator[str]:
    """Yield the undefined symbols of a library that have no version: those of the C and C++ runtimes have one."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        symbols, versions = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
        for index, symbol in enumerate(symbols.iter_symbols()):
            if symbol["st_shndx"] != "SHN_UNDEF" or symbol["st_info"]["bind"] != "STB_GLOBAL":
                continue
            if versions is None or versions.get_symbol(index)["ndx"] in ("VER_NDX_GLOBAL", "VER_NDX_LOCAL"):
                yield symbol.name


def _exported(libraries: Iterable[Path], names: Iterable[str]) -> set[str]:
    """Return the names that one of the libraries defines."""
    missing = set(names)
    defined: set[str] = set()
    for library in libraries:
        with library.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".gnu.hash")
            if table is None:
                continue
            here = {
                name for name in missing if (symbol := table.get_symbol(name)) and symbol["st_shndx"] != "SHN_UNDEF"
            }
        defined |= here
        missing -= here
    return defined
