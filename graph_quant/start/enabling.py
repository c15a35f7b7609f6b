"""Where `graph-quant enable` leaves the file that makes every Python of this environment ready."""

import sysconfig
from pathlib import Path


def enabling_file() -> Path:
    """Return the .pth file, there or not."""
    return Path(sysconfig.get_path("purelib")) / "graph_quant_host.pth"
