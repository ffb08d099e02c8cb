"""Browsers' reports of violations of the content security policy (CSP level 3, section 5.3).

Anyone can send a report, so nothing in it is trusted or stored unchanged: only known fields, cut to a length, and
addresses without query, fragment and credentials, which may hold secrets of the sender.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from gridfleet.domains.audit.models import Event
from gridfleet.domains.audit.recorder import record
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.db import Connection

__all__ = ["cleaned", "record_csp_report"]

_ADDRESSES: Final = ("document-uri", "referrer", "blocked-uri", "source-file")
_TEXTS: Final = {
    "violated-directive": 200,
    "effective-directive": 200,
    "original-policy": 1000,
    "disposition": 20,
    "script-sample": 40,
}
_NUMBERS: Final = ("status-code", "line-number", "column-number")
_LONGEST_ADDRESS: Final = 500
_LONGEST_USER_AGENT: Final = 200
_HIGHEST: Final = 2**31


async def record_csp_report(db: Connection, report: Mapping[str, Any], ip: str, user_agent: str | None) -> None:
    """Record a report as an audit event without an organisation."""
    details = cleaned(report) | ({"user-agent": user_agent[:_LONGEST_USER_AGENT]} if user_agent else {})
    await record(db, Event.CSP_REPORTED, Actor(ActorType.ANONYMOUS, ip=ip), details=details)


def cleaned(report: Mapping[str, Any]) -> dict[str, str | int]:
    """Return the part of a report that is stored, at most about 4 kB."""
    kept: dict[str, str | int] = {}
    for name in _ADDRESSES:
        if isinstance(value := report.get(name), str):
            kept[name] = _address(value)[:_LONGEST_ADDRESS]
    for name, longest in _TEXTS.items():
        if isinstance(value := report.get(name), str):
            kept[name] = value[:longest]
    for name in _NUMBERS:
        value = report.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _HIGHEST:
            kept[name] = value
    return kept


def _address(text: str) -> str:
    """Return the address without its parts that may be secret. Words such as `inline` are kept."""
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
        # An address without authority, such as `data:`, has its content in the path.
        return urlunsplit((parts.scheme, host, parts.path, "", "")) if host or not parts.scheme else parts.scheme
    except ValueError:
        return "not an address"
