"""Verification of messages on the commands topic."""

from typing import Final

import msgspec

from gridfleet.protocol import signature
from gridfleet.protocol.envelope import Command, Envelope
from gridfleet.sdk.plant.errors import CommandRefusal, CommandRefused

__all__ = ["open_command"]

_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def open_command(message: bytes, *, key: bytes, address: str, now_milliseconds: int) -> Command:
    """Return the command in a signed message that arrived on the topic `address`.

    The caller checks whether the command has expired or is a duplicate.

    Raises:
        CommandRefused: The message is malformed, is not signed with `key`, or its `sentAt` differs from `now_milliseconds` by
            more than ten minutes.
    """
    try:
        envelope = msgspec.json.decode(message, type=Envelope)
    except _UNDECODABLE as error:
        raise CommandRefused(CommandRefusal.MALFORMED, str(error)) from error
    payload = bytes(envelope.payload)
    if envelope.v != 1 or not signature.verify(key, envelope.sig, address, envelope.id, envelope.sent_at, payload):
        raise CommandRefused(CommandRefusal.SIGNATURE_INVALID, f"message {envelope.id}")
    if abs(now_milliseconds - envelope.sent_at) > signature.WINDOW_MILLISECONDS:
        raise CommandRefused(
            CommandRefusal.TIMESTAMP_OUT_OF_WINDOW,
            f"message {envelope.id} was sent at {envelope.sent_at}, it is {now_milliseconds}",
        )
    try:
        command = msgspec.json.decode(payload, type=Command)
    except _UNDECODABLE as error:
        raise CommandRefused(CommandRefusal.MALFORMED, str(error)) from error
    if command.expires_at.tzinfo is None or command.issued_at.tzinfo is None:
        raise CommandRefused(CommandRefusal.MALFORMED, "a time must have a zone, such as Z")
    return command
