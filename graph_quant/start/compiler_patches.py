"""What is wrong in both of TorchAir's compilers, npugraph_ex and torchair, and mended in each."""

from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch

from ..ge import module_path

_TOLD = "module"  # as the dump calls the path
_OUTSIDE = "_graph_quant_outside"  # of an AclGraph, by the keys of its captures


def mend_example(module: ModuleType) -> None:
    """Give the pattern's example as many zero points as scales: one for 16 scales is no call of npu_quantize."""
    example = module._get_inputs

    def mended() -> tuple[torch.Tensor, ...]:
        *others, scales, zero_points = example()
        return (*others, scales, torch.ones_like(scales, dtype=zero_points.dtype))

    vars(module)["_get_inputs"] = mended


def mend_registration(module: ModuleType) -> None:
    """Let a process use both: they register the same decompositions, and PyTorch refuses a second registration."""
    register = module.register_matmul_backward_decomp

    def register_once() -> None:
        if torch._C.DispatchKey.AutogradPrivateUse1 not in torch.ops.aten.to.other.py_kernels:
            register()

    vars(module)["register_matmul_backward_decomp"] = register_once


def mend_configuration(module: ModuleType) -> None:
    """Give npugraph_ex the options that it turns off for npu_weight_quant_batchmatmul, and which only torchair has."""
    module.CompilerConfig.experimental_config = SimpleNamespace(enable_view_optimize=False)


def tell_modules(module: ModuleType) -> None:
    """Write the path of its module before each node of the graphs that TORCH_COMPILE_DEBUG=1 leaves after passes."""
    write = module.dump_fx_safety

    def dump_fx_safety(gm: torch.fx.GraphModule, file_path: str | None = None) -> None:
        inner = [each for each in gm.modules() if isinstance(each, torch.fx.GraphModule)]
        known = {node: path for each in inner for node in each.graph.nodes if (path := module_path(node.meta))}
        for node, path in known.items():
            node.meta[_TOLD] = path
        gm.print_readable = partial(gm.print_readable, additional_meta=[_TOLD])  # type: ignore[method-assign]
        try:
            write(gm, file_path)
        finally:
            del gm.print_readable
            for node in known:
                del node.meta[_TOLD]

    vars(module)["dump_fx_safety"] = dump_fx_safety


class _Outside(NamedTuple):
    """What a captured graph takes from the CPU: copies, which it reads, and the numbers among them, by their places."""

    copies: list[torch.Tensor]
    numbers: dict[int, float]


def mend_numbers(module: ModuleType) -> None:
    """Keep copies of inputs on the CPU, and capture again for another number.

    TorchAir frees these inputs after a capture and writes to where they were before a replay; and a kernel that takes a
    number, which is such an input of no dimension, takes the captured one for ever.
    """
    graph = module.AclGraph
    capture, changed = graph.capture, graph.is_need_to_recapture

    def capture_copies(self: Any, graph_key: str, *args: Any, **kwargs: Any) -> Any:
        given, outside = list(args), _Outside([], {})
        for name, place in self._user_inputs_mapping.items():
            tensor = given[place]
            if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu":
                continue
            if tensor.dim() == 0:
                outside.numbers[place] = tensor.item()
            written = name in self._mutated_user_inputs or place in self._userinput_ref_with_output
            if self.config.get("clone_input", True) and not written:
                given[place] = tensor.clone()
                outside.copies.append(given[place])
        vars(self).setdefault(_OUTSIDE, {})[graph_key] = outside
        return capture(self, graph_key, *given, **kwargs)

    def is_need_to_recapture(self: Any, graph_key: str, *args: Any) -> bool:
        if changed(self, graph_key, *args):
            return True
        if self.config.get("unsafe_skip_npugraph_capture_validation", False):
            return False
        numbers = vars(self)[_OUTSIDE][graph_key].numbers
        return any(args[place].item() != number for place, number in numbers.items())

    graph.capture, graph.is_need_to_recapture = capture_copies, is_need_to_recapture


def mend_receiving(module: ModuleType) -> None:
    """Receive into memory of its own: the schema says that `_recv` neither writes its argument nor returns it."""
    receive = module.recv_npu

    def received(like: torch.Tensor, *args: object) -> torch.Tensor:
        into = torch.empty_like(like, memory_format=torch.contiguous_format)
        receive(into, *args)
        return into

    module.npu_define_lib.impl(module.op_recv, received, "PrivateUse1", allow_override=True)
