"""Fixtures of the checks of checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints.stored_checkpoint import CONFIG, Tensors, Write, write_file


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a checkpoint: tensors, description and what differs in config.json."""

    def checkpoint(tensors: Tensors, described: dict[str, Any] | None = None, **config: Any) -> Path:
        write_file(tmp_path / "model.safetensors", tensors)
        (tmp_path / "config.json").write_text(json.dumps({**CONFIG, **config}))
        if described is not None:
            (tmp_path / "quant_model_description.json").write_text(json.dumps(described))
        return tmp_path

    return checkpoint
