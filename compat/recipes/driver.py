"""Runs a recipe's own runner and saves the logits of every step: `driver.py checkout settings out`.

For `graph-quant run`, alone or with --ranks. The recipe runs unchanged; its worker's results are recorded, and in eager
mode its expert routing. RECIPE_FUSION=off disables TorchAir's pattern fusion, whose kernels round less.
RECIPE_ROWS=on makes transposed float32 weights row-major, as inputs of a GE graph are.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch_npu
import yaml

# Routing operators, whose first argument is the tokens, and the name of their argument for the experts.
_ROUTING = {"npu_moe_init_routing_v2": "expert_idx", "npu_moe_distribute_dispatch_v2": "expert_ids"}
_DUMMY_RANGE = 0.1


Step = dict[str, Any]
Routing = list[tuple[torch.Tensor, torch.Tensor]]


def main(checkout: str, settings: str, out: str) -> None:
    """Run the recipe that the YAML file ``settings`` describes."""
    sys.path.insert(0, checkout)
    os.environ.setdefault("RES_PATH", str(Path(out).parent))
    import custom_ops  # noqa: F401  (the recipes' extension, over the stand-in for its compiled part)

    if os.environ.get("RECIPE_FUSION") == "off":
        _without_fusion()
    described = yaml.safe_load(Path(settings).read_text())
    steps: list[Step] = []
    try:
        if "model_name" in described:
            _with_own_runner(Path(checkout) / "models" / described["model_name"], settings, steps)
        else:
            _with_executor(settings, described["model_config"]["exe_mode"] == "eager", steps)
    finally:
        rank = os.environ.get("RANK", "0")
        torch.save(steps, f"{out}.{rank}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _with_executor(settings: str, is_eager: bool, steps: list[Step]) -> None:
    from executor.core.model_worker import model_worker
    from executor.offline import infer

    if "RANK" not in os.environ:  # the runner needs a group even for one rank
        torch.distributed.init_process_group("hccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
    routed: Routing = []
    if is_eager:
        _record_routing(routed)
    _enlarge_dummy_weights()
    inference = model_worker.ModelWorker.inference

    def keeping(self: Any, model_inputs: Any, is_prefill: bool, *args: Any, **kwargs: Any) -> Any:
        routed.clear()
        if os.environ.get("RECIPE_ROWS") == "on":
            _make_row_major(self.model)
        result = inference(self, model_inputs, is_prefill, *args, **kwargs)
        output = result[0]
        logits = output[0] if isinstance(output, tuple) else output
        about = model_inputs["forward_metadata"]
        if not about.is_warm_up:
            ends = _ends(about) if is_prefill else None
            tokens = model_inputs["input_ids"].cpu()
            steps.append({"tokens": tokens, "ends": ends, "logits": logits.cpu(), "routed": list(routed)})
        return result

    model_worker.ModelWorker.inference = keeping
    sys.argv = ["infer.py", "--yaml_file_path", settings]
    infer.main()


def _with_own_runner(folder: Path, settings: str, steps: list[Step]) -> None:
    """Run a recipe with its own runner, on prompts of one length."""
    from executor.model_runner import ModelRunner

    sys.path.insert(0, str(folder))
    importlib.import_module(next(folder.glob("runner_*.py")).stem)
    (runner,) = ModelRunner.__subclasses__()
    inference = runner.model_inference

    def keeping(self: Any, model_inputs: Any, *args: Any, warm_up: bool = False, **kwargs: Any) -> Any:
        result = inference(self, model_inputs, *args, warm_up=warm_up, **kwargs)
        if not warm_up:
            tokens = model_inputs["input_ids"].cpu()
            ends = [tokens.size(1) * count for count in range(1, tokens.size(0) + 1)]
            logits = result[0][:, -1].cpu()
            steps.append({"tokens": tokens.flatten(), "ends": ends, "logits": logits, "routed": []})
        return result

    runner.model_inference = keeping
    sys.argv = ["infer.py", "--yaml_file_path", settings]
    runpy.run_path(str(folder / "infer.py"), run_name="__main__")


def _ends(about: Any) -> list[int]:
    """Return the end of each prompt among the tokens of a prefill."""
    if about.actual_seq_lengths_cu_list_q is not None:
        return list(about.actual_seq_lengths_cu_list_q)
    return [int(end) for end in about.actual_seq_lengths_cu_q]


def _record_routing(routed: Routing) -> None:
    for name, experts in _ROUTING.items():
        called = getattr(torch_npu, name)

        def call(*args: Any, called: Any = called, experts: str = experts, **kwargs: Any) -> Any:
            x, chosen = args[0] if args else kwargs["x"], args[1] if len(args) > 1 else kwargs[experts]
            routed.append((x.cpu(), chosen.cpu()))
            return called(*args, **kwargs)

        setattr(torch_npu, name, call)


def _enlarge_dummy_weights() -> None:
    """Enlarge dummy weights: the runner's own are within 0.001 of 0, too small to distinguish results."""
    from executor.model_loader import dummy_loader

    initialize = dummy_loader.initialize_dummy_weights
    dummy_loader.initialize_dummy_weights = partial(initialize, low=-_DUMMY_RANGE, high=_DUMMY_RANGE)


def _make_row_major(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.dtype == torch.float32 and not parameter.is_contiguous():
            parameter.data = parameter.data.contiguous()


def _without_fusion() -> None:
    import npugraph_ex
    import torchair

    for module, holder in ((torchair, "experimental_config"), (npugraph_ex, "")):
        kind = module.configs.compiler_config.CompilerConfig
        original_init = kind.__init__

        def init(
            self: Any, *args: Any, original_init: Any = original_init, holder: str = holder, **kwargs: Any
        ) -> None:
            original_init(self, *args, **kwargs)
            (getattr(self, holder) if holder else self).pattern_fusion_pass.value = False

        kind.__init__ = init


if __name__ == "__main__":
    main(*sys.argv[1:4])
