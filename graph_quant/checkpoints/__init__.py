"""Checks of checkpoints: what the operators will refuse, read from headers alone."""

from .api import check_checkpoint
from .headers import HeaderError
from .report import CheckpointFinding, CheckpointReport

__all__ = ["CheckpointFinding", "CheckpointReport", "HeaderError", "check_checkpoint"]
