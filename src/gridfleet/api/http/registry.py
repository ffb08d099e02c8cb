"""Import of all handler modules, which completes the registry of endpoints."""

import importlib
import pkgutil

import gridfleet.api

__all__ = ["import_handlers"]


def import_handlers() -> None:
    """Import every module below `gridfleet.api`. Each registers its endpoints."""
    for module in pkgutil.walk_packages(gridfleet.api.__path__, "gridfleet.api."):
        importlib.import_module(module.name)
