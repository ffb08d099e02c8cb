"""Signed tokens (JWT) for one audience. `kid` is the version of the key; every version that the signer has verifies."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from joserfc import jwt
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import GuestProtocol, Key
from joserfc.jws import JWSRegistry

from gridfleet.kernel.clock import utc_now

__all__ = ["InvalidToken", "TokenSigner"]

_MAX_TOKEN_CHARACTERS: Final = 2048


class InvalidToken(Exception):
    """The token is malformed, forged, expired, or intended for another audience."""


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


class TokenSigner:
    """Sign and verify JWTs for one audience.

    Args:
        algorithm: The only algorithm that is used and accepted, such as `EdDSA`.
        audience: The claim `aud` of every token.
        keys: The key of each version. Every one of them verifies tokens.
        current_version: The version that signs.
    """

    def __init__(self, algorithm: str, audience: str, keys: Mapping[int, Key], current_version: int) -> None:
        self._algorithm = algorithm
        self._registry = _OnlyAlgorithm(algorithms=[algorithm])
        self._audience = audience
        self._keys = {str(version): key for version, key in keys.items()}
        self._current = str(current_version)

    def sign(self, subject: UUID, expires_at: datetime, **claims: Any) -> str:
        """Return a token that is valid from now, with `claims` beside the registered ones."""
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
        """Verify a token and return its claims.

        Raises:
            InvalidToken: The token is not valid.
        """
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
        except (JoseError, ValueError, TypeError) as error:  # joserfc does not check the types in the header `crit`
            raise InvalidToken(str(error)) from None
        return claims

    def _key_of(self, token: GuestProtocol) -> Key:
        key = self._keys.get(str(token.headers().get("kid")))
        if key is None:
            raise InvalidToken("unknown key version")
        return key
