"""The releases that ``make versions`` ran with success; ``docs/versions.md`` has the figures."""

from __future__ import annotations

# The release that everything is tested with, and that commands install.
RECOMMENDED = "2.13.0"
# Releases of torch_npu, oldest first.
TESTED = ("2.10.0.post4", "2.13.0")
