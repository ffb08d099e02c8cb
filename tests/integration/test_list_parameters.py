"""Lists reach PostgreSQL as psycopg's own dumper would send them."""

import math
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import DataError
from psycopg.types.array import ListDumper

from gridfleet.kernel.db import Database
from gridfleet.kernel.db.lists import QuickListDumper


class Word(StrEnum):
    """Words as the statuses of plants are."""

    ONLINE = "ONLINE"
    NULL = "NULL"


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
TIMES = st.datetimes(
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=-5, minutes=-30)), ZoneInfo("Europe/Amsterdam"), None])
)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "uuid": st.uuids(),
    "timestamptz": TIMES,
    "float8": st.floats(),
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
    "numeric": st.integers(-(10**40), 10**40),
    "text": TEXTS | st.sampled_from(["", "NULL", "null", "{}", '"', "\\", "\\n", "a\nb", "a\\\nb", ",", " a "]),
    "boolean": st.booleans(),
    "integer[]": st.lists(st.integers(0, 9), min_size=2, max_size=2),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_value_arrives(database: Database, kind: str) -> None:
    elements = KINDS[kind] if kind.endswith("[]") else KINDS[kind] | st.none()
    found: list[list[Any]] = []

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(elements, max_size=20))
    def collect(values: list[Any]) -> None:
        found.append(values)

    collect()
    query = f"SELECT %s::{kind.removesuffix('[]')}[]::text"
    async with database.transaction() as db:
        for values in found:
            answers = []
            for dumper in (ListDumper, QuickListDumper):
                db.adapters.register_dumper(list, dumper)
                cursor = await db.execute(query, (values,))
                answers.append(await cursor.fetchone())
            assert answers[0] == answers[1], values


async def test_words_and_ordinary_lists_are_dumped_as_json(database: Database) -> None:
    quick = QuickListDumper(list)
    assert quick.dump([Word.ONLINE, Word.NULL, None]) == b'{"ONLINE","NULL",null}'
    assert quick.dump([datetime(2026, 1, 2, tzinfo=UTC), None]) == b'{"2026-01-02T00:00:00Z",null}'
    assert quick.dump([1.5, None]) == b"{1.5,null}"
    assert quick.dump([math.inf, 1.0]) == b"{inf,1.0}"
    async with database.transaction() as db:
        cursor = await db.execute("SELECT %s::text[]", ([Word.ONLINE, Word.NULL, None],))
        assert await cursor.fetchone() == (["ONLINE", "NULL", None],)


async def test_nul_is_refused(database: Database) -> None:
    async with database.transaction() as db:
        with pytest.raises(DataError):
            await db.execute("SELECT %s::text[]", (["a\0"],))
