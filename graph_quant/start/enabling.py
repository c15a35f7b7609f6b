"""The path of the file by which `graph-quant enable` prepares every Python of this environment."""

import sysconfig
from pathlib import Path


def enabling_file() -> Path:
    """Return the path of the .pth file, which may not exist."""
    return Path(sysconfig.get_path("purelib")) / "graph_quant_host.pth"
