"""One-sentence descriptions of problems outside the service.

A traceback does not help with an unavailable server, a full disk or a missing setting.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Final

__all__ = ["MissingSetting", "WrongSetting", "trouble_outside"]

_OUTSIDE: Final = ("psycopg.OperationalError", "httpx.TransportError", "aiormq.exceptions.ChannelInvalidStateError")
_WRAPPERS: Final = ("procrastinate.exceptions.ConnectorException", "sqlalchemy.exc.DBAPIError")
"""Library errors that wrap their cause."""


class MissingSetting(LookupError):
    """A secret or address is not set; the text names it and a remedy."""


class WrongSetting(ValueError):
    """A setting cannot be read. The text describes the valid form and does not contain the value."""


def trouble_outside(error: BaseException) -> str | None:
    """Return one line on the external problem that caused the error; None if it may be a bug.

    External are database, broker, network, disk and settings.
    """
    reasons = [_reason(part) for part in _parts(error)]
    known = [reason for reason in reasons if reason is not None]
    return "; ".join(dict.fromkeys(known)) if known and len(known) == len(reasons) else None


def _parts(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _parts(part)
    else:
        yield error


def _reason(error: BaseException) -> str | None:
    if isinstance(error, _loaded(_WRAPPERS)):
        return None if error.__cause__ is None else _reason(error.__cause__)
    if isinstance(error, (MissingSetting, WrongSetting)):
        return str(error)
    if isinstance(error, (OSError, *_loaded(_OUTSIDE))):
        first, *_ = str(error).strip().splitlines() or [""]
        return f"{type(error).__name__}: {first}{_address(error)}" if first else f"{type(error).__name__}{_address(error)}"
    return None


def _address(error: BaseException) -> str:
    """Return the address of an HTTP request without credentials, because its error does not contain it."""
    with contextlib.suppress(AttributeError, RuntimeError):
        return f" ({error.request.url.netloc.decode()})"  # type: ignore[attr-defined]
    return ""


def _loaded(names: tuple[str, ...]) -> tuple[type[BaseException], ...]:
    """Return those classes whose library is imported.

    Other libraries cannot have raised an error, and not every process loads all of them.
    """
    found = (getattr(sys.modules.get(module), name, None) for module, _, name in (full.rpartition(".") for full in names))
    return tuple(kind for kind in found if kind is not None)
