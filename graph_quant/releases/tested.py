"""The releases that the whole suite runs with; ``docs/versions.md`` has what ``make versions`` ran with others."""

from __future__ import annotations

# The release that commands install.
RECOMMENDED = "2.13.0"
# Releases of torch_npu, oldest first.
TESTED = ("2.13.0",)
