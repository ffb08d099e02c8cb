"""All handler modules, imported so that the registry of endpoints is complete."""

import importlib
import pkgutil

import gridfleet.api

__all__ = ["import_handlers"]


def import_handlers() -> None:
    """Imports every module below `gridfleet.api`; each registers its endpoints."""
    for module in pkgutil.walk_packages(gridfleet.api.__path__, "gridfleet.api."):
        importlib.import_module(module.name)
