"""Finds the Python module ``acl`` of the host NPU where CANN's own cannot be imported."""

from __future__ import annotations

import os
import sys

from .preload import HOST, choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

NAME = "acl"


class AclFinder:
    """A finder that comes after all others: where CANN is installed, its module is found before."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the package of the host NPU under CANN's name, if the host NPU is the runtime."""
        if name != NAME or choose() is not HOST:
            return None
        from importlib.util import spec_from_file_location

        from ..host.library import DIRECTORY

        package = os.path.join(os.path.dirname(DIRECTORY), NAME)  # noqa: PTH118, PTH120
        file = os.path.join(package, "__init__.py")  # noqa: PTH118
        return spec_from_file_location(name, file, submodule_search_locations=[package])


def install() -> None:
    """Append the finder. Calling it again does nothing."""
    if not any(isinstance(finder, AclFinder) for finder in sys.meta_path):
        sys.meta_path.append(AclFinder())
