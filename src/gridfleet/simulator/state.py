"""Data that a simulation keeps between runs: packages, queues, and the physical state of each plant."""

import os
import tempfile
from pathlib import Path

import msgspec

from gridfleet.sdk.plant import Package
from gridfleet.simulator.errors import SimulationError
from gridfleet.simulator.physics import PlantState

__all__ = ["Energy", "SavedPlant", "StateFolder"]


class Energy(msgspec.Struct, frozen=True):
    """Energy of one plant and UTC day in watt-milliseconds, as shown by the counters of its devices."""

    produced_wms: int = 0
    imported_wms: int = 0
    exported_wms: int = 0


class SavedPlant(msgspec.Struct, frozen=True):
    """The physical state of a plant, and the energies of its days by date."""

    state: PlantState
    days: dict[str, Energy]


class StateFolder:
    """A folder accessible only to its owner, with three files for each plant, named by the plant's id."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o700)
        except OSError as error:
            raise SimulationError(f"the state folder {path} cannot be used: {error.strerror}") from error

    def queue_path(self, plant_id: str) -> Path:
        """Return the path of the plant's store-and-forward queue."""
        return self.path / f"{plant_id}.queue"

    def load_package(self, plant_id: str) -> Package | None:
        """Return the plant's provisioning package, or None if it is not stored here."""
        path = self._package_path(plant_id)
        return Package.load(path) if path.exists() else None

    def save_package(self, plant_id: str, package: bytes) -> None:
        """Store a package, readable only by the owner."""
        _replace(self._package_path(plant_id), package)

    def load_plant(self, plant_id: str) -> SavedPlant | None:
        """Return the plant's state at the end of its last step, or None. Raises SimulationError for a damaged file."""
        try:
            return msgspec.json.decode(self._plant_path(plant_id).read_bytes(), type=SavedPlant)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise SimulationError(f"{self._plant_path(plant_id)} is damaged ({error}); remove it to start again") from error

    def save_plant(self, plant_id: str, saved: SavedPlant) -> None:
        """Store the plant's state."""
        _replace(self._plant_path(plant_id), msgspec.json.encode(saved))

    def _package_path(self, plant_id: str) -> Path:
        return self.path / f"{plant_id}.package.json"

    def _plant_path(self, plant_id: str) -> Path:
        return self.path / f"{plant_id}.state.json"


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
