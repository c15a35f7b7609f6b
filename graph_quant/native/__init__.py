"""Machine code of the package's own, where it was built and the processor has the instructions that it is made of."""

from .attention import Hidden, attend, attends
from .int8 import SERVES, int8_product, takes
from .library import PATH as LIBRARY
from .quant import quantised_rows, quantises

__all__ = (
    "LIBRARY", "SERVES", "Hidden", "attend", "attends", "int8_product", "quantised_rows", "quantises", "takes",
)  # fmt: skip
