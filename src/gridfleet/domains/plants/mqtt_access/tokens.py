"""Plants' MQTT tokens. The keys are derived from the keyring, so every process has them."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import OKPKey

from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.security.tokens import InvalidToken, TokenSigner

__all__ = ["PlantToken", "PlantTokens"]


class PlantToken(NamedTuple):
    """A plant's MQTT password and its expiry."""

    token: str
    expires_at: datetime


class PlantTokens:
    """Plants' MQTT tokens: JWT, EdDSA (Ed25519), audience `mqtt`, subject the plant's id."""

    def __init__(self, keyring: Keyring, lifetime: timedelta) -> None:
        self._lifetime = lifetime
        keys = {version: _ed25519_key(keyring, version) for version in keyring.versions}
        self._signer = TokenSigner("EdDSA", "mqtt", keys, keyring.current_version)

    def issue(self, plant_id: UUID, until: datetime | None = None) -> PlantToken:
        """Return a token for this plant, valid from now for the configured lifetime, and not after `until`."""
        lasting = utc_now() + self._lifetime
        expires_at = (lasting if until is None else min(lasting, until)).replace(microsecond=0)
        return PlantToken(self._signer.sign(plant_id, expires_at), expires_at)

    def read(self, token: str) -> tuple[UUID, datetime]:
        """Verify a token. Returns its plant and its expiry, which the broker does not enforce.

        Raises:
            InvalidToken: The token is not valid.
        """
        claims = self._signer.verify(token)
        try:
            return UUID(claims["sub"]), datetime.fromtimestamp(claims["exp"], UTC)
        except (ValueError, OverflowError):
            raise InvalidToken("subject or expiry is not valid") from None


def _ed25519_key(keyring: Keyring, version: int) -> OKPKey:
    # Any 32 bytes are an Ed25519 seed (RFC 8032, 5.1.5), so nothing needs to be stored beside the keyring.
    private = Ed25519PrivateKey.from_private_bytes(keyring.derive("plant mqtt tokens", version))
    return OKPKey.import_key(private)
