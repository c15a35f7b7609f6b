"""Runs a recipe's own runner from its checkout and keeps the logits of every step: `driver.py checkout settings out`.

For `graph-quant run`, alone or with --ranks. The recipe runs as it stands: its loader of random weights is followed by
one that fills every weight, integers too, and what its worker returns is kept as well. With RECIPE_FUSION=off TorchAir
does not fuse operators by patterns, which gives other bits where a fused kernel rounds less.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch_npu  # noqa: F401


def main(checkout: str, settings: str, out: str) -> None:
    """Run the recipe that ``settings``, its own YAML file, describe."""
    sys.path.insert(0, checkout)
    os.environ.setdefault("RES_PATH", str(Path(out).parent))
    from executor.core.model_worker import model_worker
    from executor.model_loader import dummy_loader
    from executor.offline import infer

    if "RANK" not in os.environ:  # models of experts ask for a group also where they are alone
        torch.distributed.init_process_group("hccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
    if os.environ.get("RECIPE_FUSION") == "off":
        _without_fusion()
    kept: list[dict[str, Any]] = []
    inference = model_worker.ModelWorker.inference

    def keeping(self: Any, model_inputs: Any, is_prefill: bool, *args: Any, **kwargs: Any) -> Any:
        result = inference(self, model_inputs, is_prefill, *args, **kwargs)
        output = result[0]
        logits = output[0] if isinstance(output, tuple) else output
        about = model_inputs["forward_metadata"]
        if not about.is_warm_up:
            ends = _ends(about) if is_prefill else None
            tokens = model_inputs["input_ids"].cpu()
            kept.append({"prefill": is_prefill, "tokens": tokens, "ends": ends, "logits": logits.cpu()})
        return result

    model_worker.ModelWorker.inference = keeping
    dummy_loader.DummyModelLoader.load_model = _filling(dummy_loader.DummyModelLoader.load_model)
    sys.argv = ["infer.py", "--yaml_file_path", settings]
    try:
        infer.main()
    finally:
        rank = os.environ.get("RANK", "0")
        torch.save(kept, f"{out}.{rank}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _ends(about: Any) -> list[int]:
    """Where each prompt ends among the tokens of a prefill."""
    if about.actual_seq_lengths_cu_list_q is not None:
        return list(about.actual_seq_lengths_cu_list_q)
    return [int(end) for end in about.actual_seq_lengths_cu_q]


def _without_fusion() -> None:
    import npugraph_ex
    import torchair

    for module, holder in ((torchair, "experimental_config"), (npugraph_ex, "")):
        kind = module.configs.compiler_config.CompilerConfig
        made = kind.__init__

        def init(self: Any, *args: Any, made: Any = made, holder: str = holder, **kwargs: Any) -> None:
            made(self, *args, **kwargs)
            (getattr(self, holder) if holder else self).pattern_fusion_pass.value = False

        kind.__init__ = init


def _filling(load: Callable[..., Any]) -> Callable[..., Any]:
    def load_model(*args: Any, **kwargs: Any) -> Any:
        model = load(*args, **kwargs)
        for name, tensor in model.state_dict().items():
            _fill(name, tensor)
        return model

    return load_model


def _fill(name: str, tensor: torch.Tensor) -> None:
    """Values that depend on the name alone, of the magnitude of a trained model's."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    if not tensor.is_floating_point():
        limits = torch.iinfo(tensor.dtype)
        values = torch.randint(limits.min + 1, limits.max, tensor.shape, generator=generator).to(tensor.dtype)
    elif "smooth" in name or "norm" in name:
        values = torch.empty(tensor.shape).uniform_(0.5, 1.5, generator=generator)
    elif "scale" in name:
        values = torch.empty(tensor.shape).uniform_(0.0002, 0.0006, generator=generator)
    else:
        values = torch.empty(tensor.shape).normal_(0, 0.05, generator=generator)
    tensor.copy_(values)


if __name__ == "__main__":
    main(*sys.argv[1:4])
