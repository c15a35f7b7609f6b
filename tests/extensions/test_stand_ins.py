"""Stand-ins of compiled extensions: found where an import would fail, and never where the extension is installed."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
import torch
from graph_quant.meta.definitions import read_schemas
from graph_quant.start import stand_ins

C = "vllm_ascend.vllm_ascend_C"
SCHEMAS = Path(stand_ins.__file__).parents[1] / "extensions" / "vllm_ascend" / "schemas.txt"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, whose modules are forgotten after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    written = {path.stem for path in tmp_path.iterdir()}
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in written:
            del sys.modules[name]


def write(packages: Path, **modules: str) -> None:
    """Write packages and modules; a double underscore separates a package from its module."""
    for name, text in modules.items():
        package, _, module = name.partition("__")
        (packages / package).mkdir(exist_ok=True)
        (packages / package / "__init__.py").touch()
        (packages / package / f"{module or '__init__'}.py").write_text(text, encoding="utf-8")
    importlib.invalidate_caches()


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that declares entry points, as an installed package would."""

    def declare_entries(**values: str) -> None:
        group = stand_ins.ENTRY_POINTS
        entries = {name.replace("__", "."): value for name, value in values.items()}
        declared = {name: EntryPoint(name, value, group) for name, value in entries.items()}
        monkeypatch.setattr(stand_ins, "declared", lambda: declared)
        monkeypatch.setattr(stand_ins, "_loaded", {})

    return declare_entries


def test_the_module_is_found_while_it_is_missing(packages: Path) -> None:
    write(packages, vllm_ascend="")
    assert importlib.util.find_spec(C) is not None
    module = importlib.import_module(C)
    assert "vllm_ascend" in str(module.__doc__)
    defined = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("_C_ascend::")}
    assert defined == set(read_schemas(SCHEMAS))
    with pytest.raises(ImportError, match="init_module"):
        from vllm_ascend.vllm_ascend_C import init_module  # noqa: F401


def test_dynamo_traces_the_import(packages: Path) -> None:
    write(packages, vllm_ascend="")

    @torch.compile(backend="eager", fullgraph=True)
    def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        import vllm_ascend.vllm_ascend_C  # noqa: F401

        return torch.ops._C_ascend.npu_gemma_rms_norm(x, weight)[0]

    x, weight = torch.randn(2, 8).npu(), torch.randn(8).npu()
    assert torch.equal(norm(x, weight), torch.ops._C_ascend.npu_gemma_rms_norm(x, weight)[0])


def test_schemas_are_those_of_the_file() -> None:
    stand_ins.load(C)
    for name, text in read_schemas(SCHEMAS).items():
        (schema,) = torch._C._jit_get_schemas_for_operator(name)
        declared = torch._C.parse_schema(text)
        for one, other in zip(schema.arguments, declared.arguments, strict=True):
            assert (one.name, str(one.type), one.default_value) == (other.name, str(other.type), other.default_value)
            assert one.kwarg_only == other.kwarg_only
            assert (one.alias_info is None) == (other.alias_info is None)


def test_an_operator_without_a_record_is_refused_by_name() -> None:
    stand_ins.load(C)
    message = f"_C_ascend::npu_hc_post cannot run on the host NPU: it has no reference in graph_quant; {C}"
    x = torch.ones(2, 2)
    for device in ("npu", "cpu", "meta"):
        with pytest.raises(NotImplementedError, match=message):
            torch.ops._C_ascend.npu_hc_post(*[x.to(device)] * 4)
    with pytest.raises(NotImplementedError, match="npu_sparse_attn_sharedkv_metadata cannot run"):
        torch.ops._C_ascend.npu_sparse_attn_sharedkv_metadata(1, 1, 1)


def test_an_installed_extension_is_left_alone(packages: Path, declare: Callable[..., None]) -> None:
    write(packages, compiled__ext="here = True", instead__ops="here = False\n__all__ = ['here']")
    declare(compiled__ext="instead.ops")
    assert importlib.import_module("compiled.ext").here
    assert stand_ins.is_installed("compiled.ext")
    assert not stand_ins.is_installed("compiled.missing")
    assert not stand_ins.is_installed("missing.ext")
    assert "instead.ops" not in sys.modules


def test_the_names_of_all_are_those_of_the_module(packages: Path, declare: Callable[..., None]) -> None:
    write(packages, compiled="", instead__ops="__all__ = ['count']\nother = 1\ndef count(): return 3")
    declare(compiled__ext="instead.ops")
    module = importlib.import_module("compiled.ext")
    assert module.count() == 3
    assert not hasattr(module, "other")


def test_a_faulty_stand_in_is_named_and_skipped(packages: Path, declare: Callable[..., None]) -> None:
    write(packages, compiled="", instead__ops="1 / 0")
    declare(compiled__ext="instead.ops")
    with (
        pytest.warns(RuntimeWarning, match=r"stand-in instead\.ops for compiled\.ext.* ZeroDivisionError"),
        pytest.raises(ModuleNotFoundError, match=r"No module named 'compiled\.ext'"),
    ):
        importlib.import_module("compiled.ext")
    with pytest.raises(ModuleNotFoundError):  # the warning comes once
        importlib.import_module("compiled.ext")


def test_a_library_is_replaced_where_its_file_is_missing(
    packages: Path, declare: Callable[..., None], tmp_path: Path
) -> None:
    declare(**{"libcompiled.so": "instead.library"})
    write(packages, instead__library="loaded = True")
    torch.ops.load_library(str(tmp_path / "lib" / "libcompiled.so"))
    assert isinstance(sys.modules["instead.library"], ModuleType)
    with pytest.raises(OSError, match="libother"):
        torch.ops.load_library(str(tmp_path / "libother.so"))
    (tmp_path / "libcompiled.so").write_bytes(b"no library")
    with pytest.raises(OSError, match="libcompiled"):
        torch.ops.load_library(str(tmp_path / "libcompiled.so"))
