"""The service's clock: one place to read it, so that a test can move it."""

from datetime import UTC, datetime

__all__ = ["utc_now"]


def utc_now() -> datetime:
    """Now, aware, in UTC."""
    return datetime.now(UTC)
