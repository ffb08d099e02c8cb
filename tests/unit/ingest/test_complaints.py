"""A refused message's detail names the field whose value is wrong, whatever else the message holds."""

import time

import msgspec
import pytest

from gridfleet.domains.ingest.complaints import with_field_named
from gridfleet.domains.ingest.models import Refusal
from gridfleet.domains.ingest.parsing import parse_snapshot, parse_status
from gridfleet.protocol.envelope import Snapshot


def complaint(payload: bytes) -> str:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(payload, type=Snapshot)
    return with_field_named(str(raised.value), payload)


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        (b'{"time":1,"fields":{"a":1,"b":true,"c":null,"load_power":"4.2"}}', "$.fields.load_power"),
        (b'{"time":1,"devices":[{"id":"A","fields":{}},{"id":"B","fields":{"soc":[61]}}]}', "$.devices[1].fields.soc"),
    ],
)
def test_the_field_is_named(payload: bytes, place: str) -> None:
    assert complaint(payload).endswith(f"`{place}`")


@pytest.mark.parametrize(
    "payload",
    [
        b'{"time":1,"fields":{"a":"1"}, and so on',
        b'{"time":1,"fields":{"a":"1"},"fields":{"a":1}}',
        b'{"time":1,"devices":[{"id":"A","fields":{"a":"1"}}],"devices":7}',
        b'{"time":1,"fields":{"a":"1"},"fields":[1]}',
        b'{"time":1,"fields":{"a":"1"},"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_wrong_beyond_it_changes_nothing(payload: bytes) -> None:
    assert complaint(payload).endswith("`$.fields[...]`") or complaint(payload).endswith("`$.devices[0].fields[...]`")


@pytest.mark.parametrize("unit", [b"`$", b"`$[...]`", b"[...]`", b"`$.a", b"$", b"` "])
def test_every_text_is_complained_about_in_linear_time(unit: bytes) -> None:
    """The error quotes a status that is as long as the message, and everything else in the process waits meanwhile."""
    status = unit * (250_000 // len(unit))
    begun = time.process_time()
    with pytest.raises(Refusal, match=r"^message: .* - at `\$\.status`$"):
        parse_status(b'{"status":"' + status + b'"}')
    with pytest.raises(Refusal, match=r"^payload: .* - at `\$\.devices\[0\]\.status`$"):
        parse_snapshot(msgspec.Raw(b'{"time":1,"devices":[{"id":"A","fields":{},"status":"' + status + b'"}]}'), "payload", "m")
    assert time.process_time() - begun < 2
