"""Verification of messages on the commands topic."""

from typing import Final

import msgspec
from msgspec.structs import replace

from gridfleet.protocol import signature
from gridfleet.protocol.envelope import Command, CommandType, Envelope
from gridfleet.sdk.plant.errors import CommandRefusal, CommandRefused

__all__ = ["open_command"]

_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_ON_TIME_SECONDS: Final = 5
"""Age of a message up to which its step keeps its duration: clocks differ by some seconds."""


def open_command(message: bytes, *, key: bytes, address: str, now_milliseconds: int) -> Command:
    """Return the command in a signed message that arrived on the topic `address`.

    The caller checks whether the command has expired or is a duplicate. The duration of a schedule's step is what is left of
    it: the broker keeps a message of a plant that is away for some minutes.

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
    return _without_time_on_the_way(command, (now_milliseconds - envelope.sent_at) // 1000)


def _without_time_on_the_way(command: Command, seconds: int) -> Command:
    params = command.params or {}
    duration = params.get("durationSeconds")
    is_step = command.type == CommandType.SITE_SETPOINT and command.schedule is not None
    if not is_step or not isinstance(duration, int | float) or seconds <= _ON_TIME_SECONDS:
        return command
    return replace(command, params={**params, "durationSeconds": max(1, duration - seconds)})
