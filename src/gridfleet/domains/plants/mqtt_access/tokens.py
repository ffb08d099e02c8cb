"""Plants' MQTT tokens. The keys are derived from the keyring, so every process has them."""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import OKPKey

from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.security.tokens import InvalidToken, TokenSigner

__all__ = ["MqttToken", "PlantTokens", "TokenClaims"]

_ROTATED: Final = "secretRotatedAt"


class MqttToken(msgspec.Struct, frozen=True, rename="camel"):
    """A JWT with which a TOKEN plant logs in."""

    token: str
    expires_at: datetime


class TokenClaims(NamedTuple):
    """The content of a token. `secret_rotated_at` shows which of the plant's secrets it was issued for, None for the first."""

    plant_id: UUID
    expires_at: datetime
    secret_rotated_at: datetime | None


class PlantTokens:
    """Plants' MQTT tokens: JWT, EdDSA (Ed25519), audience `mqtt`, subject the plant's id."""

    def __init__(self, keyring: Keyring, lifetime: timedelta) -> None:
        self._lifetime = lifetime
        keys = {version: _ed25519_key(keyring, version) for version in keyring.versions}
        self._signer = TokenSigner("EdDSA", "mqtt", keys, keyring.current_version)

    def issue(self, plant_id: UUID, secret_rotated_at: datetime | None = None, until: datetime | None = None) -> MqttToken:
        """Return a token for this plant, valid from now for the configured lifetime, and not after `until`.

        Args:
            secret_rotated_at: When the plant's secret was last replaced. The token is valid as long as the current secret.
        """
        lasting = utc_now() + self._lifetime
        expires_at = (lasting if until is None else min(lasting, until)).replace(microsecond=0)
        rotated = {} if secret_rotated_at is None else {_ROTATED: secret_rotated_at.astimezone(UTC).isoformat()}
        return MqttToken(self._signer.sign(plant_id, expires_at, **rotated), expires_at)

    def read(self, token: str) -> TokenClaims:
        """Verify a token. The broker does not enforce the expiry that is returned.

        Raises:
            InvalidToken: The token is not valid.
        """
        claims = self._signer.verify(token)
        try:
            rotated_at = datetime.fromisoformat(claims[_ROTATED]) if _ROTATED in claims else None
            return TokenClaims(UUID(claims["sub"]), datetime.fromtimestamp(claims["exp"], UTC), rotated_at)
        except (TypeError, ValueError, OverflowError):
            raise InvalidToken("subject, expiry or time of the secret is not valid") from None


def _ed25519_key(keyring: Keyring, version: int) -> OKPKey:
    # Any 32 bytes are an Ed25519 seed (RFC 8032, 5.1.5), so nothing needs to be stored beside the keyring.
    private = Ed25519PrivateKey.from_private_bytes(keyring.derive("plant mqtt tokens", version))
    return OKPKey.import_key(private)
