"""What goes wrong around the service, in a sentence: no traceback helps against a server that is away, a full disk or a setting
that is missing."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Final

__all__ = ["MissingSetting", "WrongSetting", "trouble_outside"]

_OUTSIDE: Final = ("psycopg.OperationalError", "httpx.TransportError", "aiormq.exceptions.ChannelInvalidStateError")
_WRAPPERS: Final = ("procrastinate.exceptions.ConnectorException", "sqlalchemy.exc.DBAPIError")
"""Errors of libraries that stand for their cause."""


class MissingSetting(LookupError):
    """A secret or an address is set nowhere; the text says which and what to do."""


class WrongSetting(ValueError):
    """What is set cannot be read; the text says what it should be, and nothing of what it is."""


def trouble_outside(error: BaseException) -> str | None:
    """What database, broker, network, disk or settings did to end in this error, on one line; None if it may be a fault of
    ours."""
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
    """Whom an HTTP request was for, without credentials: its error does not say."""
    with contextlib.suppress(AttributeError, RuntimeError):
        return f" ({error.request.url.netloc.decode()})"  # type: ignore[attr-defined]
    return ""


def _loaded(names: tuple[str, ...]) -> tuple[type[BaseException], ...]:
    """Those classes whose library is imported: nobody else can have raised one, and not every process carries all of them."""
    found = (getattr(sys.modules.get(module), name, None) for module, _, name in (full.rpartition(".") for full in names))
    return tuple(kind for kind in found if kind is not None)
