"""The MQTT token of a TOKEN plant: requested when needed, cached until it expires."""

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from gridfleet.sdk.plant.errors import TokenUnavailable

__all__ = ["TokenSource"]

_SPARE_SECONDS: Final = 60


class _Claims(msgspec.Struct):
    exp: float = 0


class TokenSource:
    """Cache of the token. Calls `provider` again only if the token is about to expire or was refused."""

    def __init__(self, provider: Callable[[], Awaitable[str]], clock: Callable[[], float]) -> None:
        self._provider = provider
        self._clock = clock
        self._token = ""
        self._expires_at = 0.0

    async def get(self) -> str:
        """Return a token for the login.

        Raises:
            TokenUnavailable: The provider failed.
        """
        if self._clock() + _SPARE_SECONDS > self._expires_at:
            try:
                self._token = await self._provider()
            except Exception as error:
                raise TokenUnavailable(f"the token provider failed: {error!r}") from error
            self._expires_at = _expiry(self._token)
        return self._token

    def invalidate(self) -> None:
        """Discard the token, because the broker refused it. The next `get` calls the provider."""
        self._expires_at = 0


def _expiry(token: str) -> float:
    """Return the JWT's `exp` in epoch seconds, 0 if it has none. Not verified, because the broker does that."""
    try:
        claims = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), type=_Claims).exp
    except (IndexError, binascii.Error, msgspec.DecodeError):
        return 0
