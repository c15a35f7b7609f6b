"""Host kernels, a file a family. Importing the package fills the tables with what every file declares."""

from graph_quant import discovery

from ...ge.kernels import CONSTANT_KERNELS, HOST_KERNELS, KERNELS, Input, Kernel

__all__ = ["CONSTANT_KERNELS", "HOST_KERNELS", "KERNELS", "Input", "Kernel"]

discovery.modules(__name__)
# A kernel may also stand beside the reference function that it calls.
discovery.below("graph_quant.reference")
