"""The request with which a TOKEN plant gets its MQTT token: signed like a message, with an address of its own and no payload.

No MQTT topic has this address, so neither a message nor a request can be used as the other.
"""

from gridfleet.protocol import signature
from gridfleet.protocol.topics import PREFIX

__all__ = ["sign_token_request", "verify_token_request"]


def sign_token_request(key: bytes, plant_id: str, request_id: str, sent_at: int) -> str:
    """Return the signature as 64 lowercase hex digits. `sent_at` is in epoch milliseconds."""
    return signature.sign(key, _address(plant_id), request_id, sent_at, b"")


def verify_token_request(key: bytes, sig: str, plant_id: str, request_id: str, sent_at: int) -> bool:
    """Return whether the signature is correct. Compares in constant time and never raises, regardless of its content."""
    return signature.verify(key, sig, _address(plant_id), request_id, sent_at, b"")


def _address(plant_id: str) -> str:
    return f"{PREFIX}{plant_id}/mqtt-token"
