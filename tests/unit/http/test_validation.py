"""Every complaint is listed, in words, with its path."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, StringConstraints

from gridfleet.api.http import NOT_NULL, Email, Input, Metadata, PageQuery, Pattern, omitted
from gridfleet.api.http.bodies import decode_json
from gridfleet.api.http.inputs import read
from gridfleet.api.http.inputs import read_query as read_pairs
from gridfleet.kernel.errors import ValidationFailed


class Kind(StrEnum):
    METER = "METER"
    BATTERY = "BATTERY"


class Signal(Input):
    key: Annotated[str, Field(min_length=1, max_length=5)]
    bit: Annotated[int, Field(ge=0)] | None = None
    field: str | None = None

    def complaints(self) -> Iterator[str]:
        if (self.bit is None) == (self.field is None):
            yield "bit: exactly one of bit and field is needed"


class Device(Input):
    name: Annotated[str, Field(min_length=1, max_length=10)]
    kind: Kind
    signals: Annotated[list[Signal], Field(max_length=3)] = []
    template_id: UUID | None = None
    slug: Annotated[str, Pattern(r"^[a-z]+$", "must be lowercase letters")] = "a"
    password: Annotated[str, StringConstraints(min_length=2, strip_whitespace=False)] = "  "
    email: Email | None = None
    share: Annotated[float, Field(ge=0, le=1)] = 0
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    on: bool = True
    at: datetime | None = None
    note: str = omitted()
    link: str | None = omitted()
    hint: Annotated[Annotated[str, Field(max_length=3)] | None, NOT_NULL] = None
    metadata: Metadata = {}
    limits: dict[str, float] = {}
    ids: list[UUID] = []


def check(value: Any) -> tuple[Device | None, list[str]]:
    """The device that a value describes, or what is wrong with it."""
    try:
        return read(Device, value), []
    except ValidationFailed as error:
        return None, error.details


def complaints(**fields: Any) -> list[str]:
    """What is said about a device that is right but for these fields."""
    return check({"name": "ok", "kind": "METER", **fields})[1]


def device(**fields: Any) -> Device:
    record, found = check({"name": "ok", "kind": "METER", **fields})
    assert not found
    assert isinstance(record, Device)
    return record


def test_all_complaints_come_at_once() -> None:
    _, found = check({"signals": [{"key": "", "bit": -1}, 5], "templateId": "x", "nam": "y"})
    assert found == [
        "name: is required",
        "kind: is required",
        "signals.0.key: must have 1 to 5 characters",
        "signals.0.bit: must be an integer >= 0",
        "signals.1: must be an object",
        "templateId: must be a UUID",
        "nam: is not a known field (did you mean name?)",
    ]


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("name", "", "must have 1 to 10 characters"),
        ("name", "   ", "must have 1 to 10 characters"),
        ("name", "x" * 11, "must have 1 to 10 characters"),
        ("name", 5, "must be a string"),
        ("name", None, "must not be null"),
        ("name", "a\0b", "must not contain control characters"),
        ("name", "a\nb", "must not contain control characters"),
        ("name", "a\x85b", "must not contain control characters"),
        ("name", "a\ud800b", "must not contain control characters"),
        ("kind", "meter", "must be one of METER, BATTERY"),
        ("kind", ["METER"], "must be one of METER, BATTERY"),
        ("kind", None, "must not be null"),
        ("signals", {}, "must be an array"),
        ("signals", [{"key": "a", "bit": 1}] * 4, "must have at most 3 items"),
        ("templateId", "0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6", "must be a UUID"),
        ("templateId", "{0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6d}", "must be a UUID"),
        ("templateId", 5, "must be a UUID"),
        ("slug", "a-B", "must be lowercase letters"),
        ("password", " ", "must have at least 2 characters"),
        ("email", "ada@localhost", "must be an e-mail address"),
        ("email", "ada lovelace@example.com", "must be an e-mail address"),
        ("email", "a" * 65 + "@example.com", "must be an e-mail address"),
        ("share", 1.01, "must be a number >= 0 and <= 1"),
        ("share", True, "must be a number >= 0 and <= 1"),
        ("share", "0.5", "must be a number >= 0 and <= 1"),
        ("share", float("inf"), "must be a number in the range of a double"),
        ("share", 10**400, "must be a number in the range of a double"),
        ("limit", 0, "must be an integer >= 1 and <= 100"),
        ("limit", 1.5, "must be an integer >= 1 and <= 100"),
        ("limit", True, "must be an integer >= 1 and <= 100"),
        ("limit", "5", "must be an integer >= 1 and <= 100"),
        ("on", 1, "must be true or false"),
        ("at", "2026-01-01T00:00:00", "must be an ISO 8601 date-time with its zone, such as 2026-01-31T12:00:00Z"),
        ("at", "2026-02-30T00:00:00Z", "must be an ISO 8601 date-time with its zone, such as 2026-01-31T12:00:00Z"),
        ("at", "2026-01-01", "must be an ISO 8601 date-time with its zone, such as 2026-01-31T12:00:00Z"),
        ("at", 1795168800, "must be an ISO 8601 date-time with its zone, such as 2026-01-31T12:00:00Z"),
        ("note", None, "must not be null"),
        ("hint", None, "must not be null"),
        ("hint", "long", "must have at most 3 characters"),
        ("metadata", [], "must be an object"),
        ("limits", {"a": "b"}, "must be a number"),
    ],
)
def test_a_wrong_value_is_named(field: str, value: Any, complaint: str) -> None:
    path = "limits.a" if field == "limits" else field
    assert complaints(**{field: value}) == [f"{path}: {complaint}"]


def test_values_arrive_typed() -> None:
    right = device(
        name="  Äpfel ",
        templateId="0192F0C1-2c1a-7c3e-9b0a-3d1f5a2b4c6d",
        signals=[{"key": "a", "bit": 3}],
        at="2026-01-01t01:00:00.5+01:00",
        limit=5.0,
        password="  ",
        metadata={"a": [1, None, {"b": "line\nline"}]},
    )
    assert right.name == "Äpfel"
    assert right.kind is Kind.METER
    assert right.template_id == UUID("0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6d")
    assert right.signals == [Signal(key="a", bit=3)]
    assert right.at == datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC)
    assert right.limit == 5
    assert isinstance(right.limit, int)
    assert right.password == "  "
    assert right.metadata == {"a": [1, None, {"b": "line\nline"}]}
    assert right.note is msgspec.UNSET


def test_null_is_kept_apart_from_absence() -> None:
    assert device(link=None).link is None
    assert device().link is msgspec.UNSET
    assert device().hint is None


def test_rules_across_fields_come_with_their_path() -> None:
    assert complaints(signals=[{"key": "a"}]) == ["signals.0.bit: exactly one of bit and field is needed"]


def test_free_form_values_are_limited_in_depth_and_to_what_can_be_stored() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = {"a": deep}
    assert complaints(metadata=deep)[0].endswith("must not be nested deeper than 32 levels")
    assert complaints(metadata={"a": "b\0"}) == ["metadata.a: must not contain control characters"]
    assert complaints(metadata={"a\0": 1}) == ["metadata: must not have control characters in a field name"]
    assert complaints(metadata={"a": float("nan")}) == ["metadata.a: must be a number in the range of a double"]
    assert complaints(metadata={"a": 2**60}) == ["metadata.a: must be an integer of at most 9007199254740991 from zero"]


def test_free_form_values_are_bounded_as_json() -> None:
    assert complaints(metadata={"a": "x" * 32_760}) == []
    assert complaints(metadata={"a": "x" * 32_761}) == ["metadata: must have at most 32768 bytes as JSON"]
    assert complaints(metadata={"a": [1e308] * 105}) == []
    assert complaints(metadata={"a": [1e308] * 106}) == ["metadata: must have at most 32768 bytes as JSON"], "309 digits each"
    assert complaints(metadata={"a": ["é"] * 6_552}) == []
    assert complaints(metadata={"a": ["é"] * 6_552 + [1]}) == ["metadata: must have at most 32768 bytes as JSON"]
    # What cannot be encoded is complained of as that, however much of it there is.
    assert len(complaints(**{f"f{n}": n for n in range(1_000)}, metadata={f"{n}\ud800": "\ud800" for n in range(10)})) == 1_000


@pytest.mark.parametrize("value", [1, [], {}, 2**60, [[[]]]])
def test_free_form_values_are_not_examined_if_they_are_too_many(value: object) -> None:
    """A body of 1 MiB has room for half a million of them, of which each takes a microsecond or two."""
    assert complaints(metadata={"a": [value] * 20_000}) == ["metadata: must have at most 16384 values"]
    assert complaints(metadata={str(n): value for n in range(20_000)}) == ["metadata: must have at most 16384 values"]


def test_the_list_of_complaints_ends_somewhere() -> None:
    assert len(complaints(**{f"field{n}": n for n in range(5_000)})) == 1_000


def test_errors_that_are_too_many_are_counted_alone() -> None:
    """A complaint takes some ten microseconds, in which all other requests of the process wait."""
    assert complaints(**{f"field{n}": n for n in range(10_001)}) == ["body: has 10001 errors, which are too many to list"]


class Choices(Input):
    kinds: list[Kind]


@pytest.mark.parametrize("item", [1, "METER", {}])
def test_items_are_not_read_if_they_are_too_many(item: object) -> None:
    """A body of 1 MiB has room for half a million of them, but not for more than 27,000 ids."""
    with pytest.raises(ValidationFailed) as refused:
        read(Choices, {"kinds": [item] * 30_001})
    assert refused.value.details == ["kinds: must have at most 30000 items"]
    assert len(read(Choices, {"kinds": ["METER"] * 30_000}).kinds) == 30_000


class Query(PageQuery):
    plant_id: UUID | None = None
    start: datetime | None = Field(alias="from", default=None)
    kind: Kind | None = None
    only: bool = False
    share: float | None = None
    tags: tuple[str, ...] = ()


def read_query(pairs: list[tuple[str, str]]) -> Query:
    return read_pairs(Query, pairs)


def test_a_query_is_read_from_text() -> None:
    query = read_query([("page", "2"), ("kind", "METER"), ("only", "true"), ("share", "1e2"), ("tags", "a"), ("tags", "b")])
    assert (query.page, query.limit, query.kind, query.only, query.share, query.tags) == (
        2,
        20,
        Kind.METER,
        True,
        100,
        ("a", "b"),
    )
    assert query.paging.offset == 20


@pytest.mark.parametrize(
    ("pairs", "complaint"),
    [
        ([("page", "0")], "page: must be an integer >= 1 and <= 1000"),
        ([("page", "1.0")], "page: must be an integer >= 1 and <= 1000"),
        ([("page", "")], "page: must be an integer >= 1 and <= 1000"),
        ([("page", "٣")], "page: must be an integer >= 1 and <= 1000"),
        ([("limit", "101")], "limit: must be an integer >= 1 and <= 100"),
        ([("limit", "5"), ("limit", "6")], "limit: must not be given twice"),
        ([("plantid", "x")], "plantid: is not a known field (did you mean plantId?)"),
        ([("plantId", "x")], "plantId: must be a UUID"),
        (
            [("from", "2026-01-01T00:00:00 01:00")],
            "from: must be an ISO 8601 date-time with its zone, such as 2026-01-31T12:00:00Z;"
            " in an address, the + of an offset is written %2B",
        ),
        ([("only", "yes")], "only: must be true or false"),
        ([("share", "nan")], "share: must be a number"),
    ],
)
def test_a_wrong_query_is_named(pairs: list[tuple[str, str]], complaint: str) -> None:
    with pytest.raises(ValidationFailed) as refusal:
        read_query(pairs)
    assert refusal.value.details == [complaint]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"{",
        b"[1,]",
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b"[Infinity]",
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        b"[" * 200_000,
        b"9" * 5_000,
        b'{"a":' * 100_000,
        "{}".encode("utf-16"),
    ],
)
def test_what_is_not_plain_json_is_refused(body: bytes) -> None:
    with pytest.raises(ValidationFailed) as refusal:
        decode_json(body)
    assert refusal.value.details[0].startswith("body: must")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    st.dictionaries(st.sampled_from(["name", "kind", "signals", "at", "limit", "metadata", "ids"]) | st.text(), _json) | _json
)
def test_any_json_is_either_typed_or_complained_about(value: Any) -> None:
    record, found = check(value)
    assert isinstance(record, Device) != bool(found)
    if record is not None:
        json.dumps(record.metadata).encode()
    for complaint in found:
        assert ": " in complaint


@given(st.datetimes(timezones=st.just(UTC)).map(lambda t: t.replace(microsecond=0)), st.integers(-14 * 60, 14 * 60))
def test_any_zone_gives_the_same_moment(moment: datetime, minutes: int) -> None:
    sign = "-" if minutes < 0 else "+"
    try:
        local = moment + timedelta(minutes=minutes)
    except OverflowError:
        return
    text = f"{local:%H:%M:%S}{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    assert device(at=f"{local.date().isoformat()}T{text}").at == moment
