"""torch.npu.graph and NPUGraph where upstream leaves a mess behind an error."""

from contextlib import suppress
from typing import Any, NamedTuple

import torch
import torch_npu

from ...releases.alternatives import end_allocation_to_pool


def mend() -> None:
    """Undo what was entered when beginning or ending a capture raises, and refuse a capture in a capture at once."""
    import torch_npu.npu.graphs as graphs

    context, graph = graphs.graph, graphs.NPUGraph
    context.__init__ = _choosing(context.__init__)
    context.__enter__ = _entering(context.__enter__)
    context.__exit__ = _leaving(context.__exit__)
    graph.capture_begin = _beginning(graph.capture_begin)
    graph.capture_end = _ending(graph.capture_end)


def _choosing(choose: Any) -> Any:
    def chosen(self: Any, *args: Any, **kwargs: Any) -> None:
        choose(self, *args, **kwargs)
        is_default = self.capture_stream is type(self).default_capture_stream
        if is_default and self.capture_stream.device_index != torch.npu.current_device():  # type: ignore[attr-defined]
            # Upstream has one stream for captures on all devices: of another one nothing would be captured.
            self.capture_stream = torch.npu.Stream()  # type: ignore[attr-defined]
            self.stream_ctx = torch.npu.stream(self.capture_stream)  # type: ignore[attr-defined]

    return chosen


def _entering(enter: Any) -> Any:
    def entered(self: Any) -> None:
        stream, modes = torch.npu.current_stream(), torch._C._len_torch_dispatch_stack()  # type: ignore[attr-defined]
        try:
            enter(self)
        except BaseException as error:
            # Nothing follows on an error here: upstream stays on the stream that was to be captured.
            if torch._C._len_torch_dispatch_stack() > modes:
                self.npu_graph.graph_dispatch_mode.__exit__(type(error), error, error.__traceback__)
            torch.npu.set_stream(stream)  # type: ignore[attr-defined]
            raise

    return entered


def _leaving(leave: Any) -> Any:
    def left(self: Any, kind: Any, value: Any, traceback: Any) -> None:
        try:
            leave(self, kind, value, traceback)
        except BaseException:
            # Upstream tells of an exception, which may raise, and asks for the stream it began on: the capture would go
            # on for ever. And it leaves by the exception of capture_end: on the captured stream, with its mode on.
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

    return left


def _beginning(begin: Any) -> Any:
    def capture_begin(self: Any, pool: Any = None, *args: Any, **kwargs: Any) -> None:
        # Upstream would direct the allocator to this graph first, and leave it there when the capture cannot begin.
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
            with suppress(RuntimeError):  # it may not have come so far
                end_allocation_to_pool(capture.device, capture.pool)
                capture.release_pool()
            raise
        self.under_way = capture

    return capture_begin


def _ending(end: Any) -> Any:
    def capture_end(self: Any) -> None:
        try:
            end(self)
        except BaseException:
            # Upstream releases the pools of those graphs alone that were captured. On another stream nothing has ended.
            capture = getattr(self, "under_way", None)
            if capture is not None and capture.stream == torch.npu.current_stream():  # type: ignore[attr-defined]
                self.under_way = None
                with suppress(RuntimeError):  # newer releases have ended it
                    end_allocation_to_pool(capture.device, capture.pool)
                capture.release_pool()
            raise
        self.under_way = None

    return capture_end


class _Capture(NamedTuple):
    """A capture that has begun: on which stream of which device, and where it allocates."""

    device: int
    stream: Any
    pool: Any
    owns_pool: bool

    def release_pool(self) -> None:
        """Let the allocator have the memory of the pool once its tensors are gone; one of the caller's stays his."""
        if self.owns_pool:
            torch_npu._C._npu_releasePool(self.device, self.pool)
