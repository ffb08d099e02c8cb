"""HMAC-SHA256 over the canonical form of a message.

    canonical = "v1" LF address LF messageId LF sentAt LF payload

`address` is the MQTT topic or the AMQP routing key, `sentAt` epoch milliseconds in decimal digits, `payload` the
bytes exactly as sent, so neither side needs to canonicalise JSON. The key is the 32 bytes that the secret's 64 hex
digits spell.
"""

from hashlib import sha256
from hmac import compare_digest
from hmac import digest as _hmac

__all__ = ["WINDOW_MILLISECONDS", "canonical", "key_from_hex", "sign", "verify"]

WINDOW_MILLISECONDS = 10 * 60 * 1000
"""How far `sentAt` may lie from the receiver's clock unless a setting says otherwise."""


def key_from_hex(secret: str) -> bytes:
    """The 32 key bytes of a 64-hex-digit secret; `ValueError` for anything else."""
    key = bytes.fromhex(secret)
    if len(key) != sha256().digest_size:
        raise ValueError("a secret is 64 hexadecimal digits")
    return key


def canonical(address: str, message_id: str, sent_at: int, payload: bytes) -> bytes:
    """The bytes that are signed."""
    return f"v1\n{address}\n{message_id}\n{sent_at}\n".encode() + payload


def sign(key: bytes, address: str, message_id: str, sent_at: int, payload: bytes) -> str:
    """The signature as 64 lowercase hex digits."""
    return _hmac(key, canonical(address, message_id, sent_at, payload), "sha256").hex()


def verify(key: bytes, signature: str, address: str, message_id: str, sent_at: int, payload: bytes) -> bool:
    """Whether `signature` is right, compared in constant time. Never raises, whatever the signature holds."""
    expected = sign(key, address, message_id, sent_at, payload)
    return compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass"))
