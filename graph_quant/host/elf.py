"""Compares what torch_npu's libraries ask of CANN with what the host NPU offers.

The lists are computed from the installed wheel, so that a newer torch_npu shows its new needs by name.
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

# Names of CANN's C interfaces, as they stand in torch_npu's libraries for a look-up at run time. aclnn names
# belong to the operator library (libopapi), which torch_npu can do without.
_LOOKED_UP = re.compile(
    rb"\0((?:acl(?!nn)|Hccl|Hcom|Msprof|rt[A-Z]|mspti[A-Z]|mstx[A-Z]|hal[A-Z])[A-Za-z0-9]{4,63}"
    rb"|(?:dcmi|aclshmemx?)_[a-z0-9_]{3,63})(?=\0)"
)
# Looked up in libraries that are optional: the objects that operators of libopapi are called with, marks for profilers
# (mstx), what a card and its driver say of themselves (dcmi, hal), and memory that cards share (aclshmem).
_OPTIONAL_NAMES = re.compile(
    r"acl(Create|Destroy)(BoolArray|IntArray|Scalar|ScalarList|Tensor|TensorList|AclOpExecutor)$|acl(GetViewShape|Rfft1D|Stft)"
    r"|mstx|hal|dcmi_|aclshmem"
)
# Names that stand in messages and functions of torch_npu's own; CANN has no such function.
_WORDS = re.compile(r"Hccl(Allgather|Allreduce|ReduceScatterBase|CommList)|.*Face$|aclProfiling|aclQueryEvent")
# Libraries that torch_npu loads only when one of their features is used; each says so by name when it is missing.
_OPTIONAL = ("libop_plugin_atb.so",)


@dataclass
class Needs:
    """What a wheel needs, each list sorted by name."""

    linked: list[str] = field(default_factory=list)  # must be there or the library does not load
    missing: list[str] = field(default_factory=list)  # linked, but not offered
    looked_up: list[str] = field(default_factory=list)  # asked for when a feature is first used
    served: list[str] = field(default_factory=list)  # looked up, and does what it says
    refused: list[str] = field(default_factory=list)  # looked up, and fails by its name: it needs an NPU
    elsewhere: list[str] = field(default_factory=list)  # of operators and tools that torch_npu can do without
    words: list[str] = field(default_factory=list)  # no function of CANN, only called like one
    unknown: list[str] = field(default_factory=list)  # looked up, and nothing is there


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
    offered = _exported([Path(DIRECTORY) / RUNTIME], linked | looked_up)
    looked_up -= linked
    refused = _refused_names()
    found = Needs(sorted(linked), sorted(linked - offered), sorted(looked_up))
    for name in found.looked_up:
        if name in offered:
            (found.refused if name in refused else found.served).append(name)
        elif _OPTIONAL_NAMES.match(name):
            found.elsewhere.append(name)
        else:
            (found.words if _WORDS.match(name) else found.unknown).append(name)
    return found


def _refused_names() -> set[str]:
    """Return the functions of the runtime that only say that they need an NPU."""
    runtime = ctypes.CDLL(str(Path(DIRECTORY) / RUNTIME))
    first = ctypes.c_char_p.in_dll(runtime, "host_refused_names")
    names = ctypes.cast(ctypes.byref(first), ctypes.POINTER(ctypes.c_char_p))
    listed: Iterator[bytes | None] = (names[place] for place in itertools.count())
    return {name.decode() for name in itertools.takewhile(lambda name: name is not None, listed) if name is not None}


def _libraries_of(package: str) -> list[Path]:
    """Return the shared libraries of an installed package, without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed")
    return sorted(path for place in spec.submodule_search_locations for path in Path(place).rglob("*.so"))


def _unversioned_imports(library: Path) -> Iterator[str]:
    """Yield what a library must find elsewhere. Names of the C and C++ runtimes carry a version, CANN's do not."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        symbols, versions = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
        for index, symbol in enumerate(symbols.iter_symbols()):
            if symbol["st_shndx"] != "SHN_UNDEF" or symbol["st_info"]["bind"] != "STB_GLOBAL":
                continue
            if versions is None or versions.get_symbol(index)["ndx"] in ("VER_NDX_GLOBAL", "VER_NDX_LOCAL"):
                yield symbol.name


def _exported(libraries: Iterable[Path], names: Iterable[str]) -> set[str]:
    """Return those of the names that one of the libraries defines."""
    unseen = set(names)
    found: set[str] = set()
    for library in libraries:
        with library.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".gnu.hash")
            if table is None:
                continue
            here = {name for name in unseen if (symbol := table.get_symbol(name)) and symbol["st_shndx"] != "SHN_UNDEF"}
        found |= here
        unseen -= here
    return found
