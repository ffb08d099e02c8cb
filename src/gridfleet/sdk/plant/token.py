"""The MQTT token of a TOKEN plant: requested when needed, cached until it expires."""

import base64
import ssl
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec

from gridfleet.protocol.token_request import sign_token_request
from gridfleet.sdk.plant.errors import PackageError, TokenRefused, TokenUnavailable
from gridfleet.sdk.plant.messages import MessageIds
from gridfleet.sdk.plant.package import Package

__all__ = ["SignedTokens", "TokenSource"]

_SPARE_SECONDS: Final = 60
_TIMEOUT_SECONDS: Final = 30
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


class _Claims(msgspec.Struct):
    exp: float = 0


class _Issued(msgspec.Struct):
    token: str


class _Refusal(msgspec.Struct):
    message: str = ""
    details: list[str] = []


class SignedTokens:
    """A token provider that signs each request with the plant's secret, so that no user's login is needed.

    Args:
        package: The plant's provisioning package.
        url: Where to request tokens. Default: the URL of the package, which must be https unless it is on this machine.
        clock: Returns epoch seconds.

    Raises:
        PackageError: The package has no such URL, or its authority is unusable.
    """

    def __init__(self, package: Package, url: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._url = url or _url_of(package)
        self._package = package
        self._clock = clock
        self._ids = MessageIds()
        self._accepted_at = 0
        self._tls: ssl.SSLContext | None = None

    async def __call__(self) -> str:
        """Request a token.

        Raises:
            TokenRefused: The service refuses the plant.
            TokenUnavailable: The service gives no token for another reason.
        """
        import httpx  # only TOKEN plants need it

        request_id = self._ids.next()
        # The service accepts only requests that are newer than the last accepted one.
        sent_at = max(int(self._clock() * 1000), self._accepted_at + 1)
        sig = sign_token_request(self._package.signing_key, self._package.plant_id, request_id, sent_at)
        try:
            async with httpx.AsyncClient(verify=self._trust(), timeout=_TIMEOUT_SECONDS) as client:
                response = await client.post(self._url, json={"id": request_id, "sentAt": sent_at, "sig": sig})
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TokenUnavailable(f"{self._url}: {error!r}") from error
        if not response.is_success:
            kind = TokenRefused if response.status_code in _REFUSED else TokenUnavailable
            raise kind(f"{self._url}: {response.status_code} {_reason(response.content)}")
        # Not that of a refused one: the clock may have been ahead, and every request would be refused until it is that late.
        self._accepted_at = sent_at
        try:
            return msgspec.json.decode(response.content, type=_Issued).token
        except msgspec.DecodeError as error:
            raise TokenUnavailable(f"{self._url}: the response has no token") from error

    def _trust(self) -> ssl.SSLContext | bool:
        """Return a context that trusts the authorities of this machine and that of the package; False if the URL has no TLS."""
        if not self._url.startswith("https:"):
            return False  # a context takes 40 ms
        if self._tls is None:
            self._tls = ssl.create_default_context()
            if self._package.security.ca_cert:
                try:
                    self._tls.load_verify_locations(cadata=self._package.security.ca_cert)
                except (ssl.SSLError, ValueError) as error:
                    raise PackageError(f"the authority of the package is unusable: {error}") from error
        return self._tls


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
            TokenRefused: The service refuses the plant.
            TokenUnavailable: The provider failed.
        """
        if self._clock() + _SPARE_SECONDS > self._expires_at:
            try:
                self._token = await self._provider()
            except TokenUnavailable:
                raise
            except Exception as error:
                raise TokenUnavailable(f"the token provider failed: {error!r}") from error
            self._expires_at = _expiry(self._token)
        return self._token

    def invalidate(self) -> None:
        """Discard the token, because the broker refused it. The next `get` calls the provider."""
        self._expires_at = 0


def _url_of(package: Package) -> str:
    url = package.mqtt.token_url
    if url is None:
        raise PackageError("the package has no mqtt.tokenUrl")
    parts = urlsplit(url)
    if parts.scheme != "https" and not _is_here(parts.hostname or ""):
        raise PackageError("mqtt.tokenUrl must be https: the token must not be sent unencrypted")
    return url


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reason(body: bytes) -> str:
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except msgspec.DecodeError:
        return ""
    return "; ".join((refusal.message, *refusal.details))


def _expiry(token: str) -> float:
    """Return the JWT's `exp` in epoch seconds, 0 if it has none. Not verified, because the broker does that."""
    try:
        claims = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), type=_Claims).exp
    except (IndexError, ValueError, msgspec.DecodeError):
        return 0
