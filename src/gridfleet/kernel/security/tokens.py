"""Signed tokens: users' access tokens and plants' MQTT tokens.

All keys are derived from the keyring, so every process has them. `kid` is the key version; every version in the keyring
verifies.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jwt
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import GuestProtocol, Key, OctKey, OKPKey
from joserfc.jws import JWSRegistry

from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["ACCESS_TOKEN_LIFETIME", "AccessClaims", "AccessTokens", "InvalidToken", "PlantToken", "PlantTokens"]

ACCESS_TOKEN_LIFETIME: Final = timedelta(minutes=15)
_MAX_TOKEN_CHARACTERS: Final = 2048
_MOST_VERIFIED: Final = 10_000


class InvalidToken(Exception):
    """The token is malformed, forged, expired, or intended for another audience."""


class AccessClaims(NamedTuple):
    """Claims of an access token. Whether the session is still valid is in the database only."""

    user_id: UUID
    session_id: UUID
    token_version: int


class PlantToken(NamedTuple):
    """A plant's MQTT password and its expiry."""

    token: str
    expires_at: datetime


class _OnlyAlgorithm(JWSRegistry):
    """Registry with a single algorithm. Avoids joserfc's warning that RFC 9864 renamed EdDSA; the tokens keep the old name."""

    def get_alg(self, name: str) -> Any:
        if self.allowed is None or name not in self.allowed:
            raise UnsupportedAlgorithmError(f"Algorithm of '{name}' is not allowed")
        return self.algorithms[name]


class _Claims(jwt.JWTClaimsRegistry):
    """The checks of claims."""

    def validate_iat(self, value: object) -> None:
        """Accept any time of issue: the clock of the process that issued the token may be ahead of this one's."""


class _Signer:
    """JWTs for one audience: one algorithm, and one key for each key version."""

    def __init__(self, algorithm: str, audience: str, keys: Mapping[int, Key], current_version: int) -> None:
        self._algorithm = algorithm
        self._registry = _OnlyAlgorithm(algorithms=[algorithm])
        self._audience = audience
        self._keys = {str(version): key for version, key in keys.items()}
        self._current = str(current_version)

    def sign(self, subject: UUID, expires_at: datetime, **claims: Any) -> str:
        return jwt.encode(
            {"alg": self._algorithm, "kid": self._current},
            {
                "aud": self._audience,
                "sub": str(subject),
                "iat": int(utc_now().timestamp()),
                "exp": int(expires_at.timestamp()),
                **claims,
            },
            self._keys[self._current],
            registry=self._registry,
        )

    def verify(self, token: str) -> dict[str, Any]:
        if len(token) > _MAX_TOKEN_CHARACTERS:
            raise InvalidToken("too long")
        registry = _Claims(
            now=int(utc_now().timestamp()),
            aud={"essential": True, "value": self._audience},
            sub={"essential": True},
            exp={"essential": True},
        )
        try:
            claims = jwt.decode(token, self._key_of, registry=self._registry).claims
            registry.validate(claims)
        except (JoseError, ValueError) as error:
            raise InvalidToken(str(error)) from None
        return claims

    def _key_of(self, token: GuestProtocol) -> Key:
        key = self._keys.get(str(token.headers().get("kid")))
        if key is None:
            raise InvalidToken("unknown key version")
        return key


class AccessTokens:
    """Users' access tokens: JWT, HS256, 15 minutes, with user, session and tokenVersion."""

    def __init__(self, keyring: Keyring) -> None:
        self._signer = _Signer(
            "HS256",
            "api",
            {version: OctKey.import_key(keyring.derive("access tokens", version)) for version in keyring.versions},
            keyring.current_version,
        )
        # Most requests carry the same token as the previous one. A lookup replaces a verification of a tenth of a millisecond.
        self._verified: dict[str, tuple[AccessClaims, int]] = {}

    def issue(self, claims: AccessClaims) -> str:
        """Return a token that is valid for ACCESS_TOKEN_LIFETIME from now."""
        return self._signer.sign(
            claims.user_id,
            utc_now() + ACCESS_TOKEN_LIFETIME,
            sid=str(claims.session_id),
            tokenVersion=claims.token_version,
        )

    def read(self, token: str) -> AccessClaims:
        """Verify a token and return its claims.

        Raises:
            InvalidToken: The token is not valid.
        """
        known = self._verified.get(token)
        if known is not None and int(utc_now().timestamp()) < known[1]:
            return known[0]
        claims = self._signer.verify(token)
        try:
            found = AccessClaims(UUID(claims["sub"]), UUID(claims["sid"]), int(claims["tokenVersion"]))
            expires = int(claims["exp"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InvalidToken("claims are missing") from None
        if len(self._verified) >= _MOST_VERIFIED:
            self._verified.clear()
        self._verified[token] = found, expires
        return found


class PlantTokens:
    """Plants' MQTT tokens: JWT, EdDSA (Ed25519), audience `mqtt`, subject the plant's id."""

    def __init__(self, keyring: Keyring, lifetime: timedelta) -> None:
        self._lifetime = lifetime
        keys = {version: _ed25519_key(keyring, version) for version in keyring.versions}
        self._signer = _Signer("EdDSA", "mqtt", keys, keyring.current_version)

    def issue(self, plant_id: UUID) -> PlantToken:
        """Return a token for this plant, valid from now for the configured lifetime."""
        expires_at = (utc_now() + self._lifetime).replace(microsecond=0)
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
            raise InvalidToken("subject or expiry makes no sense") from None


def _ed25519_key(keyring: Keyring, version: int) -> OKPKey:
    # Any 32 bytes are an Ed25519 seed (RFC 8032, 5.1.5), so nothing needs to be stored beside the keyring.
    private = Ed25519PrivateKey.from_private_bytes(keyring.derive("plant mqtt tokens", version))
    return OKPKey.import_key(private)
