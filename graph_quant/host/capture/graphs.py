"""Patches torch.npu.graph and NPUGraph, which leave streams, modes and pools in a wrong state after an error.

A replay that a rule refuses raises that `Refusal`, where torch_npu would raise a RuntimeError of its own.
"""

from contextlib import suppress
from typing import Any, NamedTuple

import torch
import torch_npu

from ...releases.alternatives import end_allocation_to_pool


def patch() -> None:
    """Restore the state when the begin or end of a capture raises, and refuse a nested capture before it begins."""
    import torch_npu.npu.graphs as graphs

    context, graph = graphs.graph, graphs.NPUGraph
    context.__init__ = _patch_init(context.__init__)
    context.__enter__ = _patch_enter(context.__enter__)
    context.__exit__ = _patch_exit(context.__exit__)
    graph.capture_begin = _patch_capture_begin(graph.capture_begin)
    graph.capture_end = _patch_capture_end(graph.capture_end)
    graph.replay = _patch_replay(graph.replay)


def _patch_init(init: Any) -> Any:
    def patched(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        is_default = self.capture_stream is type(self).default_capture_stream
        if is_default and self.capture_stream.device_index != torch.npu.current_device():  # type: ignore[attr-defined]
            # Upstream has one capture stream for all devices: work on another device would not be captured.
            self.capture_stream = torch.npu.Stream()  # type: ignore[attr-defined]
            self.stream_ctx = torch.npu.stream(self.capture_stream)  # type: ignore[attr-defined]

    return patched


def _patch_enter(enter: Any) -> Any:
    def patched(self: Any) -> None:
        stream, modes = torch.npu.current_stream(), torch._C._len_torch_dispatch_stack()  # type: ignore[attr-defined]
        try:
            enter(self)
        except BaseException as error:
            # __exit__ is not called after an error here: upstream would stay on the capture stream.
            if torch._C._len_torch_dispatch_stack() > modes:
                self.npu_graph.graph_dispatch_mode.__exit__(type(error), error, error.__traceback__)
            torch.npu.set_stream(stream)  # type: ignore[attr-defined]
            raise

    return patched


def _patch_exit(leave: Any) -> Any:
    def patched(self: Any, kind: Any, value: Any, traceback: Any) -> None:
        try:
            leave(self, kind, value, traceback)
        except BaseException:
            # Upstream prints the exception, which may raise, and synchronises the stream: the capture would never end.
            # If capture_end raises, upstream stays on the captured stream with its dispatch mode active.
            torch.npu.set_stream(self.capture_stream)  # type: ignore[attr-defined]
            if torch.npu.is_current_stream_capturing():  # type: ignore[attr-defined]
                from .runtime import abandon_capture

                with suppress(RuntimeError):
                    self.npu_graph.capture_end()
                abandon_capture()
            if self.npu_graph.auto_dispatch_capture:
                self.npu_graph.graph_dispatch_mode.__exit__(kind, value, traceback)
            self.stream_ctx.__exit__(kind, value, traceback)
            raise

    return patched


def _patch_capture_begin(begin: Any) -> Any:
    def capture_begin(self: Any, pool: Any = None, *args: Any, **kwargs: Any) -> None:
        # Upstream directs the allocator to this graph first, and leaves it so when the capture cannot begin.
        if torch.npu.is_current_stream_capturing():  # type: ignore[attr-defined]
            raise RuntimeError("NPUGraph.capture_begin: the stream is capturing already")
        capture = _Capture(
            torch.npu.current_device(),  # type: ignore[attr-defined]
            torch.npu.current_stream(),  # type: ignore[attr-defined]
            torch.npu.graph_pool_handle() if pool is None else pool,  # type: ignore[attr-defined]
            pool is None,
        )
        try:
            begin(self, capture.pool, *args, **kwargs)
        except BaseException:
            with suppress(RuntimeError):  # the allocator may not have been directed yet
                end_allocation_to_pool(capture.device, capture.pool)
                capture.release_pool()
            raise
        self.capture_in_progress = capture

    return capture_begin


def _patch_capture_end(end: Any) -> Any:
    def capture_end(self: Any) -> None:
        try:
            end(self)
        except BaseException:
            # Upstream releases the pools of captured graphs only. On another stream the capture has not ended.
            capture = getattr(self, "capture_in_progress", None)
            if capture is not None and capture.stream == torch.npu.current_stream():  # type: ignore[attr-defined]
                self.capture_in_progress = None
                with suppress(RuntimeError):  # newer releases have ended it
                    end_allocation_to_pool(capture.device, capture.pool)
                capture.release_pool()
            raise
        self.capture_in_progress = None

    return capture_end


def _patch_replay(replay: Any) -> Any:
    def patched(self: Any) -> None:
        from . import tape

        tape.take_refusal()  # of a replay that was begun otherwise
        try:
            replay(self)
        except RuntimeError as error:
            refused = tape.take_refusal()
            if refused is None:
                raise
            raise refused from error

    return patched


class _Capture(NamedTuple):
    """A capture that has begun: its device, stream and memory pool."""

    device: int
    stream: Any
    pool: Any
    owns_pool: bool

    def release_pool(self) -> None:
        """Return the pool to the allocator once its tensors are freed, unless it is the caller's."""
        if self.owns_pool:
            torch_npu._C._npu_releasePool(self.device, self.pool)
