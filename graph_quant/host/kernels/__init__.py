"""Host kernels, a file a family. Importing the package fills the tables with what every file declares."""

from ... import discovery
from ...ge.kernels import CONSTANT_KERNELS, HOST_KERNELS, KERNELS, Input, Kernel

__all__ = ["CONSTANT_KERNELS", "HOST_KERNELS", "KERNELS", "Input", "Kernel"]

discovery.load_all(__name__)
# The kernel of an operator's GE node stands beside the reference that it calls.
discovery.load_all("graph_quant.reference")
