"""Users' access tokens. The keys are derived from the keyring, so every process has them."""

from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from joserfc.jwk import OctKey

from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.security.tokens import InvalidToken, TokenSigner

__all__ = ["ACCESS_TOKEN_LIFETIME", "AccessClaims", "AccessTokens"]

ACCESS_TOKEN_LIFETIME: Final = timedelta(minutes=15)
_MOST_VERIFIED: Final = 10_000


class AccessClaims(NamedTuple):
    """Claims of an access token. Whether the session is still valid is in the database only."""

    user_id: UUID
    session_id: UUID
    token_version: int


class AccessTokens:
    """Users' access tokens: JWT, HS256, 15 minutes, with user, session and tokenVersion."""

    def __init__(self, keyring: Keyring) -> None:
        self._signer = TokenSigner(
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
