"""HMAC-SHA256 over the canonical form of a message.

    canonical = "v1" LF address LF messageId LF sentAt LF payload

`address` is the MQTT topic or the AMQP routing key. `sentAt` is epoch milliseconds in decimal digits. `payload` is the bytes
exactly as sent, so neither side needs to canonicalise JSON. The key is the 32 bytes that the 64 hex digits of the secret
encode.
"""

from hashlib import sha256
from hmac import compare_digest
from hmac import digest as _hmac

__all__ = ["WINDOW_MILLISECONDS", "canonical", "key_from_hex", "sign", "verify"]

WINDOW_MILLISECONDS = 10 * 60 * 1000
"""Permitted difference between `sentAt` and the receiver's clock, unless a setting overrides it."""


def key_from_hex(secret: str) -> bytes:
    """Return the 32 key bytes of a secret of 64 hex digits.

    Raises:
        ValueError: The secret does not have 64 hex digits, or has other characters than these and white space.
    """
    key = bytes.fromhex(secret)
    if len(key) != sha256().digest_size:
        raise ValueError("a secret must have 64 hexadecimal digits")
    return key


def canonical(address: str, message_id: str, sent_at: int, payload: bytes) -> bytes:
    """Return the bytes to sign."""
    return f"v1\n{address}\n{message_id}\n{sent_at}\n".encode() + payload


def sign(key: bytes, address: str, message_id: str, sent_at: int, payload: bytes) -> str:
    """Return the signature as 64 lowercase hex digits."""
    return _hmac(key, canonical(address, message_id, sent_at, payload), "sha256").hex()


def verify(key: bytes, signature: str, address: str, message_id: str, sent_at: int, payload: bytes) -> bool:
    """Return whether `signature` is correct. Compares in constant time and never raises, regardless of its content."""
    expected = sign(key, address, message_id, sent_at, payload)
    return compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass"))
