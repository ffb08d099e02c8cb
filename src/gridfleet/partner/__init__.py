"""Former place of `gridfleet.sdk.partner`. This package will be removed in the next release."""

import warnings

from gridfleet.sdk.partner import *  # noqa: F403

warnings.warn("gridfleet.partner is now gridfleet.sdk.partner", DeprecationWarning, stacklevel=2)
