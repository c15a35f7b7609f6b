"""torch.npu.graph and NPUGraph where upstream leaves a mess behind an error."""

from typing import Any


def mend() -> None:
    """Undo what was entered when ending a capture raises; refuse a capture in a capture before it changes anything."""
    import torch_npu.npu.graphs as graphs

    end, begin = graphs.graph.__exit__, graphs.NPUGraph.capture_begin

    def leave(self: Any, kind: Any, value: Any, traceback: Any) -> None:
        try:
            end(self, kind, value, traceback)
        except BaseException:
            # Upstream leaves by the exception of capture_end, on the captured stream and with its mode on.
            if self.npu_graph.auto_dispatch_capture:
                self.npu_graph.graph_dispatch_mode.__exit__(kind, value, traceback)
            self.stream_ctx.__exit__(kind, value, traceback)
            raise

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        # Upstream would direct the allocator to this graph first, and leave it there when the capture cannot begin.
        if graphs.is_current_stream_capturing():
            raise RuntimeError("NPUGraph.capture_begin: the stream is capturing already")
        begin(self, *args, **kwargs)

    graphs.graph.__exit__ = leave
    graphs.NPUGraph.capture_begin = capture_begin
