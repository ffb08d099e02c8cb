"""The MQTT token of a TOKEN plant: asked for when needed, kept while it lives."""

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from gridfleet.device.errors import TokenUnavailable

__all__ = ["TokenSource"]

_SPARE_SECONDS: Final = 60


class _Claims(msgspec.Struct):
    exp: float = 0


class TokenSource:
    """Calls `provider` for a token, and again only when the last one is about to expire or was refused."""

    def __init__(self, provider: Callable[[], Awaitable[str]], clock: Callable[[], float]) -> None:
        self._provider = provider
        self._clock = clock
        self._token = ""
        self._expires_at = 0.0

    async def get(self) -> str:
        """A token to log in with; `TokenUnavailable` when the provider fails."""
        if self._clock() + _SPARE_SECONDS > self._expires_at:
            try:
                self._token = await self._provider()
            except Exception as error:
                raise TokenUnavailable(f"the token provider failed: {error!r}") from error
            self._expires_at = _expiry(self._token)
        return self._token

    def invalidate(self) -> None:
        """Ask the provider next time: the broker refused this token."""
        self._expires_at = 0


def _expiry(token: str) -> float:
    """The JWT's `exp` in epoch seconds, 0 when it says none. Not verified: that is the broker's business."""
    try:
        claims = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), type=_Claims).exp
    except (IndexError, binascii.Error, msgspec.DecodeError):
        return 0
