"""The kernels are plain functions; importing the package first makes torch_npu loadable."""

import graph_quant  # noqa: F401
import torch_npu  # noqa: F401
import torchair  # noqa: F401
