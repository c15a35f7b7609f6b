"""The host NPU's libraries, under CANN's names.

Standard library only, and as little of it as possible: this is imported at interpreter start, and by setup.py.
"""

import os

DIRECTORY = os.path.join(os.path.dirname(__file__), "lib")  # noqa: PTH118, PTH120 (pathlib costs a start-up)
RUNTIME = "libascendcl.so"
ALIASES = (
    "libhccl.so",
    "libacl_op_compiler.so",
    "libge_runner.so",
    "libgraph.so",
    "libfmk_parser.so",
    "libacl_tdt_channel.so",
    "libascend_protobuf.so",
    "libascendsk.so",
    "libmspti.so",
)
