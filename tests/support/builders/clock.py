"""The clock of the test's own process, as the product reads it."""

import sys
from collections.abc import Callable
from datetime import datetime

import pytest

from gridfleet.kernel import clock


def set_clock(monkeypatch: pytest.MonkeyPatch, read: Callable[[], datetime]) -> None:
    """Let every loaded module of the product read the time with `read`.

    The monotonic clock and the database's are not changed. A list of modules would be wrong after the next move of a function.
    """
    for name, module in list(sys.modules.items()):
        # A module that is first imported while the clock is set must get the true one, which it keeps.
        if name.startswith("gridfleet.") and module is not clock and hasattr(module, "utc_now"):
            monkeypatch.setattr(module, "utc_now", read)
