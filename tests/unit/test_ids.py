"""Ids of new rows."""

from datetime import UTC, datetime, timedelta

from gridfleet.kernel.ids import first_id_at, new_id


def test_ids_ascend_in_the_order_of_their_creation() -> None:
    """Rows of one moment are listed by id: with random bits after the milliseconds, two refusals changed places."""
    ids = [new_id() for _ in range(1_000)]
    assert ids == sorted(set(ids))


def test_an_id_has_the_form_of_version_7_and_its_time() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    value = new_id()
    assert (value.version, value.variant) == (7, "specified in RFC 4122")
    assert first_id_at(before) < value < first_id_at(datetime.now(UTC) + timedelta(milliseconds=1))
