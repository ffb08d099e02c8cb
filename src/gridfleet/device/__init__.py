"""Former import path of `gridfleet.sdk.plant`. This package will be removed in the next release."""

import warnings

from gridfleet.sdk.plant import *  # noqa: F403
from gridfleet.sdk.plant import PlantClient as Device
from gridfleet.sdk.plant import PlantClientError as DeviceError

__all__ = ["Device", "DeviceError"]

warnings.warn("gridfleet.device is now gridfleet.sdk.plant, and its Device is PlantClient", DeprecationWarning, stacklevel=2)
