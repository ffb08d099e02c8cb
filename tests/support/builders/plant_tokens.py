"""MQTT tokens of plants with claims of a test's choice, signed with the service's own key."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jwt
from joserfc.jwk import OKPKey

from gridfleet.kernel.security.keyring import Keyring


def forged_token(keyring: Keyring, **claims: object) -> str:
    """Return a token with these claims, signed with the newest version of the key."""
    key = OKPKey.import_key(Ed25519PrivateKey.from_private_bytes(keyring.derive("plant mqtt tokens")))
    header = {"alg": "EdDSA", "kid": str(keyring.current_version)}
    return jwt.encode(header, claims, key, algorithms=["EdDSA"])
