"""Eager PyTorch on the host NPU: every ATen operator runs on the CPU, over the same memory."""

from .registry import register

__all__ = ["register"]
