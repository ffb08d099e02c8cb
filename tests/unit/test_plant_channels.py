"""Which lines of the broker's log name a plant whose channel failed."""

import pytest

from gridfleet.amqp.plant_channels import BrokenConnection, broken_connection

PLANT = "018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d"
START = "2026-11-20 10:00:00.000000+00:00 [error] <0.900.0> "
REASON = f"\n{START}operation basic.publish caused a channel exception precondition_failed: message size 2 is larger than 1"


def channel_error(user: str, address: str = "127.0.0.1:41000 -> 127.0.0.1:8883", vhost: str = "plants") -> bytes:
    return (
        f"{START}Channel error on connection <0.1.0> ({address}, vhost: '{vhost}', user: '{user}'), channel 2:{REASON}".encode()
    )


@pytest.mark.parametrize("user", [PLANT, f"SERIALNUMBER=0a1b,CN={PLANT}"])
@pytest.mark.parametrize("address", ["127.0.0.1:41000 -> 127.0.0.1:8883", "[2001:db8::1]:41000 -> [::1]:8883"])
def test_the_connection_of_a_failed_channel_is_found(user: str, address: str) -> None:
    assert broken_connection(channel_error(user, address)) == BrokenConnection(address, user)


@pytest.mark.parametrize(
    "line",
    [
        channel_error("_gridfleet"),
        channel_error("acme", vhost="partner-018f6b1e"),
        channel_error(PLANT, vhost="partner-018f6b1e"),
        channel_error("acme", f"127.0.0.1:1 -> 127.0.0.1:5671 - x, vhost: 'plants', user: '{PLANT}'), channel 1:"),
        f"{START}closing AMQP connection <0.1.0> ({channel_error(PLANT).decode()})".encode(),
        f"{START}PLAIN login refused: user 'x\n".encode() + channel_error(PLANT),
        b"",
        b"\xff\xfe",
    ],
)
def test_any_other_line_names_no_plant(line: bytes) -> None:
    assert broken_connection(line) is None
