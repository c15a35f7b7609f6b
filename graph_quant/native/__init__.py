"""Machine code of the package's own, where it was built and the processor has the instructions that it is made of."""

from .attention import Hidden, attend, attends
from .int8 import SERVES, Factor, int8_product, int8_products, takes
from .library import PATH as LIBRARY
from .quant import quantised_rows, quantises

__all__ = (
    "LIBRARY", "SERVES", "Factor", "Hidden", "attend", "attends", "int8_product", "int8_products", "quantised_rows",
    "quantises", "takes",
)  # fmt: skip
