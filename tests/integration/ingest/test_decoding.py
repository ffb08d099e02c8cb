"""From fields to stored values: templates with bits, scales and limits, own names that grow, wide devices, merging."""

import random
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridfleet.domains.device_templates.catalogue import update_template
from gridfleet.domains.device_templates.models import Signal, TemplateChanges
from gridfleet.domains.ingest.models import Delivery
from gridfleet.domains.telemetry.frames.lookup import used_layouts
from gridfleet.domains.telemetry.frames.models import SourceLayout
from gridfleet.kernel.db import Connection, Database
from support.builders.signal_roles import SYSTEM
from support.clients.ingest_bench import Bench, BenchPlant, Values, moment


def snapshot(second: int, fields: dict[str, Any] | None = None, **devices: dict[str, Any]) -> dict[str, Any]:
    entries = [{"id": name, "fields": values} for name, values in devices.items()]
    return {"time": moment(second).isoformat(), "fields": fields or {}, "devices": entries}


async def test_every_bit_of_a_word_and_nothing_of_what_is_no_word(bench: Bench) -> None:
    plant = await bench.plant()
    await plant.add_device("D", [{"key": f"b{bit}", "bit": bit} for bit in range(64)])
    words: list[Any] = [0, 1, 2**63, 2**64 - 1, 0xA5A5_A5A5_5A5A_5A5A, 2**53 + 1, 6.0, 2.0**63]
    no_words: list[Any] = [-1, -1.0, 0.5, 2**64, 1e300, True, None, 2.0**64]
    for second, word in enumerate(words + no_words):
        await bench.take(plant.message(snapshot(second, D={"status": word})))
    stored = await plant.stored()
    assert await plant.refusals() == []
    for bit in range(64):
        assert stored[f"D.b{bit}"] == {moment(second): int(word) >> bit & 1 for second, word in enumerate(words)}


async def test_inverted_bits_other_words_scale_offset_and_limits(bench: Bench) -> None:
    plant = await bench.plant()
    signals: list[dict[str, Any]] = [
        {"key": "power", "field": "p.raw", "scale": 0.1, "offset": -5, "unit": "kW", "min": 0, "max": 10},
        {"key": "plain", "field": "p.raw"},
        {"key": "closed", "bit": 3, "word": "flags", "invert": True},
        {"key": "running", "bit": 0, "word": "flags"},
        {"key": "total", "field": "e", "kind": "counter", "unit": "kWh"},
    ]
    await plant.add_device("D", signals)
    batch = await bench.take(
        plant.message(snapshot(0, D={"p.raw": 100, "flags": 1, "e": 7, "other": 1, "another": 2})),
        plant.message(snapshot(1, D={"p.raw": -30, "flags": 8})),
        plant.message(snapshot(2, D={"p.raw": 1_000, "flags": -8, "e": True})),
        plant.message(snapshot(3, D={"p.raw": None, "other": 1})),
        plant.message(snapshot(4, D={"other": 1})),
        plant.message(snapshot(5, D={})),
    )
    assert batch.undeclared_fields == 4
    assert await plant.stored() == {
        "D.power": {moment(0): 5, moment(1): -8, moment(2): 95},  # beyond the limits, and kept
        "D.plain": {moment(0): 100, moment(1): -30, moment(2): 1_000},
        "D.closed": {moment(0): 1, moment(1): 0},
        "D.running": {moment(0): 1, moment(1): 0},
        "D.total": {moment(0): 7, moment(2): 1},
    }
    assert await plant.rows(
        "SELECT DISTINCT metrics, units, counters, minimums, maximums FROM telemetry_layout l JOIN telemetry_latest t"
        " ON t.layout_id = l.id JOIN telemetry_source s ON s.id = t.source_id WHERE s.plant_id = %s"
    ) == [
        (
            ["power", "plain", "total", "closed", "running"],
            ["kW", "", "kWh", "", ""],
            [False, False, True, False, False],
            [0, None, None, None, None],
            [10, None, None, None, None],
        )
    ]


async def test_another_scale_of_a_counter_is_another_layout(bench: Bench) -> None:
    """Of a counter only: a power has no level that an edit could change."""
    plant = await bench.plant()
    total = {"key": "total", "field": "e", "kind": "counter", "unit": "kWh"}
    power = {"key": "power", "field": "p", "unit": "kW"}
    edits = [
        (total, power),
        (total, {**power, "scale": 2}),
        ({**total, "label": "Total"}, power),
        ({**total, "scale": 0.1, "offset": 5}, power),
        (total, power),
    ]
    template_id = await plant.add_device("D", [])
    assert template_id is not None
    for second, signals in enumerate(edits):
        async with bench.database.transaction() as db:
            changes = TemplateChanges(signals=msgspec.convert(signals, list[Signal]))
            await update_template(db, SYSTEM, template_id, changes)
        fields = {"e": 7 + second, "p": 1}
        await bench.take(plant.message(snapshot(second, D=fields)), pipeline=bench.another_process())
    assert (await plant.stored())["D.total"] == {moment(n): value for n, value in enumerate([7, 8, 9, 6, 11])}
    assert await plant.rows(
        "SELECT scalings, count(*) FROM telemetry_frame f JOIN telemetry_layout l ON l.id = f.layout_id"
        " JOIN telemetry_source s ON s.id = f.source_id WHERE s.plant_id = %s GROUP BY 1 ORDER BY 1"
    ) == [(["e 0.1 5.0", None], 1), (["e 1.0 0.0", None], 4)]


async def test_own_names_get_places_as_they_come_also_after_a_restart(bench: Bench) -> None:
    plant = await bench.plant(["D"])
    expected: Values = {}
    steps = [
        {"a": 1},
        {"b": 2, "a": 3},
        {"b": 4},
        {"c": 5, "bad name": 1},
        {},
        {"a": None, "d": True},
        {"a": 6, "c": 7, "d": 0},
    ]
    for second, fields in enumerate(steps):
        pipeline = bench.pipeline if second % 2 else bench.another_process()
        await bench.take(plant.message(snapshot(second, D=fields)), pipeline=pipeline)
        for name, value in fields.items():
            if value is not None and " " not in name:
                expected.setdefault(f"D.{name}", {})[moment(second)] = float(value)
    assert await plant.stored() == expected
    assert await plant.latest() == {name: dict([max(values.items())]) for name, values in expected.items()}


async def test_wide_devices_are_split_and_whole_again(bench: Bench) -> None:
    plant = await bench.plant(["OWN"])
    count = 2_000
    await plant.add_device("WIDE", [{"key": f"k{n}", "field": f"f{n}", "scale": 2} for n in range(count)])
    own = {f"k{n}": n + 0.5 for n in range(201)}
    await bench.take(plant.message(snapshot(0, OWN=own, WIDE={f"f{n}": n for n in range(count)})))
    await bench.take(plant.message(snapshot(1, OWN={"k7": 1}, WIDE={"f1999": 1, "f3": None})))
    expected = {f"OWN.{name}": {moment(0): value} for name, value in own.items()}
    expected |= {f"WIDE.k{n}": {moment(0): 2.0 * n} for n in range(count)}
    expected["OWN.k7"][moment(1)] = 1
    expected["WIDE.k1999"][moment(1)] = 2
    assert await plant.stored() == expected
    assert await plant.latest() == {name: dict([max(values.items())]) for name, values in expected.items()}
    [[longest]] = await plant.rows(
        "SELECT max(pg_column_size(f.*)) FROM telemetry_frame f JOIN telemetry_source s ON s.id = f.source_id"
        " WHERE s.plant_id = %s"
    )
    assert longest < 2_000  # beyond that PostgreSQL moves values out of line


def numbered(first: int, last: int) -> dict[str, int]:
    """Fields n{first} to n{last}, each with its number."""
    return {f"n{number}": number for number in range(first, last + 1)}


async def test_new_names_of_a_message_get_positions_together(bench: Bench) -> None:
    """Each time takes a transaction, and a layout that each later entry may have values in."""
    plant = await bench.plant(["D", "E"])
    snapshots: list[dict[str, Any]] = [snapshot(n, {f"own{n}": n}, D={f"d{n}": n}, E={"e": n}) for n in range(30)]
    snapshots[7]["time"] = "never"
    await bench.take(plant.message(snapshots))
    stored = await plant.stored()
    expected = {name.format(n): {moment(n): n} for n in range(30) if n != 7 for name in ("own{}", "D.d{}")}
    assert stored == expected | {"E.e": {moment(n): n for n in range(30) if n != 7}}
    assert len(await plant.refusals()) == 1
    assert await plant.rows(
        "SELECT coalesce(s.external_id, ''), count(*) FROM telemetry_latest t JOIN telemetry_source s ON s.id = t.source_id"
        " WHERE s.plant_id = %s GROUP BY 1 ORDER BY 1"
    ) == [("", 1), ("D", 1), ("E", 1)]


async def test_an_entry_costs_what_it_has_and_not_what_its_device_has(bench: Bench) -> None:
    """One message has thousands of entries, and all plants wait while it is read."""
    plants = [await bench.plant() for _ in range(3)]
    await plants[0].add_device("D")
    await plants[1].add_device("D")
    await plants[2].add_device("D", [{"key": f"k{n}", "field": f"n{n}"} for n in range(2_000)])
    for start in range(0, 4_000, 1_000):
        await bench.take(plants[1].message(snapshot(start, D=numbered(start, start + 999))))
    entries = [{"id": "D", "time": moment(0).timestamp() * 1000 + n, "fields": {"n0": n}} for n in range(4_000)]
    snapshots = [{"time": moment(1).isoformat(), "devices": entries[first : first + 1_000]} for first in range(0, 4_000, 1_000)]
    seconds: list[float] = []
    for plant in plants:
        await bench.take(plant.message(snapshot(2, D={"n0": 1})))
        message = plant.message(snapshots)
        seconds.append(min([await seconds_of(bench, message) for _ in range(3)]))
    assert max(seconds) < 8 * seconds[0], seconds


async def seconds_of(bench: Bench, message: Delivery) -> float:
    """Return the processor time of reading a message with 4,000 entries."""
    started = time.process_time()
    batch = await bench.pipeline.prepare([message])
    seconds = time.process_time() - started
    assert len(batch.frames.frames) == 4_000
    return seconds


async def test_new_names_of_many_devices_take_one_transaction(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each device held the messages of all plants for seconds, for a message of 37 kB."""
    names = [f"D{number}" for number in range(20)]
    plant = await bench.plant(names)
    await bench.take(plant.message(snapshot(0, **{name: {"a": 0} for name in names})))
    begun = 0
    transaction = Database.transaction

    def counted(database: Database) -> AbstractAsyncContextManager[Connection]:
        nonlocal begun
        begun += 1
        return transaction(database)

    monkeypatch.setattr(Database, "transaction", counted)
    batch = await bench.pipeline.prepare([plant.message(snapshot(1, **{name: {"b": 1} for name in names}))])
    assert len(batch.frames.frames) == 20
    assert begun <= 2  # the other one reads alert rules


async def test_layouts_are_read_once_for_each_time_that_a_shard_is_taken(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """All layouts of a device were read for each new name, while the messages of all plants waited."""
    read: list[int] = []

    async def recorded(db: Connection, source_ids: Sequence[int]) -> dict[int, list[SourceLayout]]:
        found = await used_layouts(db, source_ids)
        read.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr("gridfleet.domains.ingest.organization_names.used_layouts", recorded)
    plant = await bench.plant(["D", "E"])
    for second in range(5):
        await bench.take(plant.message(snapshot(second, D={f"d{second}": 1}, E={f"e{second}": 1})))
    bench.pipeline.plant_cache.note_shard_taken()
    for second in range(5, 10):
        await bench.take(plant.message(snapshot(second, D={f"d{second}": 1}, E={f"e{second}": 1})))
    assert (await plant.stored()).keys() == {f"{name}{second}" for name in ("D.d", "E.e") for second in range(10)}
    assert read == [0, 10]


async def test_a_batch_ends_with_the_message_that_fills_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One field takes the 200 positions of its layout: 8 bytes became a row that takes 0.09 ms to merge."""
    monkeypatch.setattr("gridfleet.domains.ingest.pipeline.MOST_FRAMES", 5)
    plant = await bench.plant()
    await plant.add_device("D", [{"key": f"k{n}", "field": f"n{n}"} for n in range(200)])
    messages = [plant.message(snapshot(second, D={"n0": second})) for second in range(12)]
    sizes: list[int] = []
    while messages:
        batch = await bench.take(*messages)
        sizes.append(len(batch.frames.frames))
        messages = messages[sizes[-1] :]
    assert sizes == [5, 5, 2]
    assert await plant.stored() == {"D.k0": {moment(second): second for second in range(12)}}


async def test_repeated_frames_fill_a_batch_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are merged while they are read, and take as long as others."""
    monkeypatch.setattr("gridfleet.domains.ingest.pipeline.MOST_FRAMES", 5)
    plant = await bench.plant(["D"])
    repeated = [plant.message([snapshot(0, D={"n": second}), snapshot(0, {"own": second})]) for second in range(8)]
    batch = await bench.take(*repeated)
    assert (batch.message_count, len(batch.frames.frames)) == (3, 2)
    assert await plant.stored() == {"D.n": {moment(0): 2}, "own": {moment(0): 2}}


async def test_no_more_names_than_the_limit_and_those_known_go_on(bench: Bench) -> None:
    plant = await bench.plant()
    for start in (0, 1_500):
        await bench.take(plant.message(snapshot(start, numbered(start, start + 1_499))))
    assert len(await plant.stored()) == 3_000
    batch = await bench.take(
        plant.message(snapshot(3_000, numbered(3_000, 4_001))),
        plant.message(snapshot(3_001, {"n0": 2, "new": 3, "n4001": 1}), message_id="m-7"),
    )
    stored = await plant.stored()
    assert len(stored) == 4_000
    assert stored["n0"][moment(3_001)] == 2
    assert not {"new", "n4000", "n4001"} & stored.keys()
    assert batch.undeclared_fields == 4
    assert batch.results["accepted"] == 2
    assert await plant.refusals() == [
        ("TOO_MANY_FIELDS", "payload.fields: 4,000 names were used within 30 days; dropped: n4000, n4001"),
        ("TOO_MANY_FIELDS", "payload.fields: 4,000 names were used within 30 days; dropped: n4001, new"),
    ]
    assert await plant.rows("SELECT message_id FROM refused_message WHERE plant_id = %s ORDER BY id") == [("m",), ("m-7",)]


def limit_names_of_plants(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    for module in ("cached_plants", "plant_cache"):
        monkeypatch.setattr(f"gridfleet.domains.ingest.{module}.MAX_PLANT_NAMES", most)


async def test_the_devices_of_a_plant_share_a_limit_of_names(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 devices with 4,000 names each took 230 MB of the process, and 3 s to read after each change of the plant."""
    limit_names_of_plants(monkeypatch, 50)
    plant, other = await bench.plant(["D", "E", "F"]), await bench.plant(["D"])
    await plant.add_device("T", [{"key": f"k{n}", "field": f"n{n}", "unit": "W"} for n in range(100)])
    await bench.take(
        plant.message(snapshot(0, numbered(1, 5), D=numbered(1, 20), E=numbered(1, 20), T=numbered(0, 99))),
        plant.message(snapshot(1, D=numbered(21, 40), F={"a": 1}), message_id="m-2"),
        other.message(snapshot(1, D=numbered(21, 70))),
    )
    again = plant.message(snapshot(2, {"n1": 2}, E=numbered(1, 21), F={"b": 1}), message_id="m-3")
    await bench.take(again, pipeline=bench.another_process())
    dropped = [(0, ", ".join(f"n{n}" for n in range(26, 41))), (1, "a"), (0, "n21"), (1, "b")]
    limit = "100,000 names of the plant were used within 30 days"
    assert [detail for _, detail in await plant.refusals()] == [
        f"payload.devices.{place}.fields: {limit}; dropped: {names}" for place, names in dropped
    ]
    stored = await plant.stored()
    assert len([name for name in stored if not name.startswith("T.")]) == 50
    assert stored["E.n20"] == {moment(0): 20, moment(2): 20}
    assert len(await other.stored()) == 50
    await age(plant, set(), days=31)
    async with bench.database.transaction() as db:
        await db.execute("UPDATE telemetry_latest SET time = time - interval '31 days', times = NULL")
    await bench.take(plant.message(snapshot(3, F={"b": 1})), pipeline=bench.another_process())
    assert (await plant.stored())["F.b"] == {moment(3): 1}


async def test_signals_of_templates_without_units_do_not_count_as_names(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_names_of_plants(monkeypatch, 50)
    plant = await bench.plant(["D"])
    await plant.add_device("T", [{"key": f"k{n}", "field": f"n{n}"} for n in range(60)])
    await bench.take(plant.message(snapshot(0, T=numbered(0, 59))))
    await bench.take(plant.message(snapshot(1, D={"a": 1})), pipeline=bench.another_process())
    assert await plant.refusals() == []
    assert (await plant.stored())["D.a"] == {moment(1): 1}


async def age(plant: BenchPlant, names: set[str], days: int) -> None:
    """Makes names of the plant as if they had been seen last so many days ago."""
    await plant.rows(
        "UPDATE telemetry_latest t SET made_at = made_at - interval '90 days' FROM telemetry_source s"
        " WHERE s.id = t.source_id AND s.plant_id = %s RETURNING 1"
    )
    async with plant.bench.database.transaction() as db:
        await db.execute(
            "UPDATE telemetry_latest t SET times = ARRAY(SELECT CASE WHEN m = ANY(%(names)s) THEN t.time - %(days)s"
            " * interval '1 day' ELSE coalesce(at, t.time) END FROM unnest(l.metrics, t.times) WITH ORDINALITY AS u (m, at, i)"
            " ORDER BY i) FROM telemetry_layout l WHERE l.id = t.layout_id",
            {"names": list(names), "days": days},
        )


async def test_new_names_of_many_messages_get_their_positions_together(bench: Bench) -> None:
    """A transaction for each of them, in which all plants wait, took 138 times as long as the same messages with one name."""
    plant, other = await bench.plant(["D"]), await bench.plant(["D"])
    messages = [plant.message(snapshot(number, {f"own{number}": number}, D={f"n{number}": number})) for number in range(60)]
    forged = replace(other, id=plant.id, key=bytes(32)).message(snapshot(5, D={"forged": 1}))
    late = plant.message([snapshot(61, D={"array": 1}), {"time": "never"}, snapshot(62, D={"last": 1})])
    batch = await bench.take(*messages[:30], forged, other.message(snapshot(1, D={"n1": 1})), *messages[30:], late)
    assert batch.results == {"accepted": 62, "signature_invalid": 1, "malformed": 1}
    layouts = await plant.rows(
        "SELECT s.external_id, l.metrics FROM telemetry_latest t JOIN telemetry_source s ON s.id = t.source_id"
        " JOIN telemetry_layout l ON l.id = t.layout_id WHERE s.plant_id = %s ORDER BY s.external_id NULLS FIRST, l.id"
    )
    assert [(device, len(metrics)) for device, metrics in layouts] == [(None, 1), (None, 59), ("D", 1), ("D", 61)]
    assert set(layouts[3][1]) == {"array", "last", *(f"n{number}" for number in range(1, 60))}
    expected = {f"D.n{number}": {moment(number): number} for number in range(60)}
    expected |= {f"own{number}": {moment(number): number} for number in range(60)}
    assert await plant.stored() == {**expected, "D.array": {moment(61): 1}, "D.last": {moment(62): 1}}
    assert await other.stored() == {"D.n1": {moment(1): 1}}


async def test_names_unseen_for_30_days_make_room(bench: Bench) -> None:
    plant = await bench.plant()
    for start in (0, 2_000):
        await bench.take(plant.message(snapshot(start, numbered(start, start + 1_999))))
    old = {f"n{number}" for number in range(150, 160)}
    await age(plant, old, days=29)
    await bench.take(plant.message(snapshot(3_000, {"new": 1})), pipeline=bench.another_process())
    assert [reason for reason, _ in await plant.refusals()] == ["TOO_MANY_FIELDS"]
    await age(plant, old, days=31)
    process = bench.another_process()
    await bench.take(plant.message(snapshot(3_001, {f"new{number}": 1 for number in range(9)})), pipeline=process)
    # The tenth place: of two names that come back one is stored, where its earlier values are.
    await bench.take(plant.message(snapshot(3_002, {"n150": 7, "n151": 8})), pipeline=process)
    await bench.take(plant.message(snapshot(3_003, {"n150": 9, "n151": 9, "n0": 5})), pipeline=bench.another_process())
    stored = await plant.stored()
    assert {f"new{number}" for number in range(9)} <= stored.keys()
    assert stored["n150"] == {moment(0): 150, moment(3_002): 7, moment(3_003): 9}
    assert stored["n151"] == {moment(0): 151}
    assert stored["n0"][moment(3_003)] == 5
    assert [detail.partition("dropped: ")[2] for _, detail in await plant.refusals()] == ["new", "n151", "n151"]


async def test_names_that_were_only_just_given_a_place_are_not_unseen_because_their_values_are_old(bench: Bench) -> None:
    plant = await bench.plant()
    for start in (0, 2_000):
        long_ago = {**snapshot(0, numbered(start, start + 1_999)), "time": moment(-40 * 86_400).isoformat()}
        await bench.take(plant.message(long_ago))
    await bench.take(plant.message(snapshot(0, {"new": 1})), pipeline=bench.another_process())
    assert len(await plant.stored()) == 4_000
    assert [reason for reason, _ in await plant.refusals()] == ["TOO_MANY_FIELDS"]


async def test_many_dropped_names_are_counted(bench: Bench) -> None:
    plant = await bench.plant(["OWN"])
    for start in (0, 2_000):
        await bench.take(plant.message(snapshot(start, OWN=numbered(start, start + 1_999))))
    await bench.take(plant.message(snapshot(3_000, {"a": 1}, OWN={f"{number:04}".rjust(60, "x"): 1 for number in range(100)})))
    [(_, detail)] = await plant.refusals()
    assert detail.startswith("payload.devices.0.fields: 4,000 names")
    assert detail.endswith(" and 94 more")
    assert len(detail) <= 500
    assert (await plant.stored())["a"] == {moment(3_000): 1}


async def test_integers_beyond_a_double_cost_their_own_values_alone(bench: Bench) -> None:
    plant, other = await bench.plant(), await bench.plant(["D"])
    await plant.add_device("D", [{"key": key, "field": key} for key in ("humidity", "power", "temperature")])
    values = {"temperature": 10**400, "humidity": -(10**400), "power": 5}
    await bench.take(plant.message(snapshot(0, values, D=values)), other.message(snapshot(0, D={"a": 1})))
    assert await plant.stored() == {"power": {moment(0): 5}, "D.power": {moment(0): 5}}
    assert await other.stored() == {"D.a": {moment(0): 1}}


async def test_a_name_that_another_process_placed_keeps_its_place(bench: Bench) -> None:
    """A plant's shard moves to another process and back; what the first one remembers of the plant is outdated by then."""
    plant = await bench.plant()
    await bench.take(plant.message(snapshot(0, {"a": 1})))
    await bench.take(plant.message(snapshot(1, {"b": 2})), pipeline=bench.another_process())
    await bench.take(plant.message(snapshot(1, {"b": 3, "c": 3})))
    assert await plant.stored() == {"a": {moment(0): 1}, "b": {moment(1): 3}, "c": {moment(1): 3}}


async def test_late_messages_fill_history_and_leave_the_newest_values(bench: Bench) -> None:
    plant = await bench.plant(["D"])
    await bench.take(plant.message(snapshot(100, {"x": 1}, D={"a": 1, "b": 1})))
    await bench.take(plant.message(snapshot(50, {"x": 2, "y": 2}, D={"a": 2, "b": 2, "c": 2})))
    await bench.take(plant.message(snapshot(70, D={"c": 3})), plant.message(snapshot(60, D={"c": 4, "b": 4})))
    assert await plant.latest() == {
        "x": {moment(100): 1},
        "y": {moment(50): 2},
        "D.a": {moment(100): 1},
        "D.b": {moment(100): 1},
        "D.c": {moment(70): 3},
    }
    assert (await plant.stored())["D.c"] == {moment(50): 2, moment(60): 4, moment(70): 3}


async def test_the_same_time_again_is_merged_and_the_later_word_wins(bench: Bench) -> None:
    plant = await bench.plant(["D"])
    first, second = plant.message(snapshot(0, D={"a": 1, "b": 1})), plant.message(snapshot(0, D={"b": 2, "c": 2}))
    await bench.take(first)
    await bench.take(second, second)
    merged = {"D.a": {moment(0): 1}, "D.b": {moment(0): 2}, "D.c": {moment(0): 2}}
    assert await plant.stored() == merged
    assert await plant.latest() == merged
    await bench.take(plant.message(snapshot(0, D={"a": None})))
    assert await plant.stored() == merged


async def test_devices_have_times_of_their_own(bench: Bench) -> None:
    plant = await bench.plant(["D", "E"])
    entries = [
        {"id": "D", "time": moment(1).isoformat(), "fields": {"a": 1}},
        {"id": "D", "time": int(moment(2).timestamp() * 1000), "fields": {"a": 2}},
        {"id": "E", "fields": {"a": 3}},
    ]
    await bench.take(plant.message({"time": moment(9).isoformat(), "devices": entries}))
    assert await plant.stored() == {"D.a": {moment(1): 1, moment(2): 2}, "E.a": {moment(9): 3}}


async def test_an_edited_template_counts_from_the_next_message_and_old_frames_keep_their_meaning(bench: Bench) -> None:
    plant = await bench.plant()
    template_id = await plant.add_device("D", [{"key": "a", "field": "f"}, {"key": "gone", "field": "g"}])
    await bench.take(plant.message(snapshot(0, D={"f": 1, "g": 1})))
    async with bench.database.transaction() as db:
        await db.execute(
            "UPDATE device_template SET version = 2, signals ="
            """ '[{"key": "new", "field": "h"}, {"key": "a", "field": "f", "scale": 10}]' WHERE id = %s""",
            (template_id,),
        )
    bench.pipeline.plant_cache.invalidate_all()
    await bench.take(plant.message(snapshot(1, D={"f": 2, "g": 2, "h": 2})))
    assert await plant.stored() == {
        "D.a": {moment(0): 1, moment(1): 20},
        "D.gone": {moment(0): 1},
        "D.new": {moment(1): 2},
    }


async def test_a_device_that_gets_and_loses_its_template_keeps_its_history(bench: Bench) -> None:
    plant = await bench.plant()
    template_id = await plant.add_device("D", [{"key": "a", "field": "f"}, {"key": "b", "field": "g"}])
    for second, template in enumerate([template_id, None, template_id, None]):
        async with bench.database.transaction() as db:
            await db.execute("UPDATE sub_device SET template_id = %s WHERE plant_id = %s", (template, plant.id))
        bench.pipeline.plant_cache.invalidate(str(plant.id))
        await bench.take(plant.message(snapshot(second, D={"f": second, "a": 10 + second, "c": 20 + second})))
    assert await plant.stored() == {
        "D.a": {moment(0): 0, moment(1): 11, moment(2): 2, moment(3): 13},
        "D.f": {moment(1): 1, moment(3): 3},
        "D.c": {moment(1): 21, moment(3): 23},
    }


async def test_a_device_without_its_former_template_measures_in_no_unit(bench: Bench) -> None:
    """The template's values were scaled to kW; the device's own field of the same name is in W."""
    plant = await bench.plant()
    signals = [{"key": "p", "field": "p", "scale": 0.001, "unit": "kW", "max": 10}, {"key": "q", "field": "q"}]
    await plant.add_device("D", signals)
    await bench.take(plant.message(snapshot(0, D={"p": 500, "q": 1})))
    async with bench.database.transaction() as db:
        await db.execute("UPDATE sub_device SET template_id = NULL WHERE plant_id = %s", (plant.id,))
    bench.pipeline.plant_cache.invalidate(str(plant.id))
    await bench.take(plant.message(snapshot(1, D={"p": 600, "q": 2})))
    await bench.take(plant.message(snapshot(2, D={"p": 700})), pipeline=bench.another_process())
    assert await plant.stored() == {
        "D.p": {moment(0): 0.5, moment(1): 600, moment(2): 700},
        "D.q": {moment(0): 1, moment(1): 2},
    }
    assert await plant.rows(
        "SELECT f.time, f.vals[array_position(l.metrics, 'p')], l.units[array_position(l.metrics, 'p')]"
        " FROM telemetry_frame f JOIN telemetry_source s ON s.id = f.source_id JOIN telemetry_layout l ON l.id = f.layout_id"
        " WHERE s.plant_id = %s AND f.vals[array_position(l.metrics, 'p')] IS NOT NULL ORDER BY f.time"
    ) == [(moment(0), 0.5, "kW"), (moment(1), 600, ""), (moment(2), 700, "")]


Sent = tuple[str, int, dict[str, float | None]]
sent_snapshots = st.lists(
    st.tuples(
        st.sampled_from(["", "OWN", "TEMPLATED"]),
        st.integers(0, 5),
        st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.none() | st.floats(-1e9, 1e9), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent_snapshots, st.randoms(use_true_random=False))
async def test_any_order_and_repetition_of_messages_ends_as_a_plain_model_does(
    bench: Bench, sent: list[Sent], chance: random.Random
) -> None:
    """Batches of any size, redelivered any number of times, some after a restart, some as one array."""
    plant = await bench.plant(["OWN"])
    await plant.add_device("TEMPLATED", [{"key": key, "field": key} for key in ("a", "b", "c", "d")])
    model: Values = {}
    queue = list(sent)
    while queue:
        size = chance.randint(1, 5)
        part, queue = queue[:size], queue[size:]
        for device, second, fields in part:
            for key, value in fields.items():
                if value is not None:
                    model.setdefault(f"{device}.{key}" if device else key, {})[moment(second)] = value
        snapshots = [
            snapshot(second, **{device: fields}) if device else snapshot(second, fields) for device, second, fields in part
        ]
        together = chance.random() < 0.5
        messages = [plant.message(snapshots)] if together else [plant.message(one) for one in snapshots]
        pipeline = bench.another_process() if chance.random() < 0.3 else bench.pipeline
        for _ in range(chance.randint(1, 3)):
            await bench.take(*messages, pipeline=pipeline)
    assert await values_of(plant) == model


async def values_of(plant: BenchPlant) -> Values:
    """What is stored; the newest values must follow from it."""
    found = await plant.stored()
    newest: dict[str, dict[datetime, float]] = {name: dict([max(values.items())]) for name, values in found.items()}
    assert await plant.latest() == newest
    return found


async def test_a_shuffled_day_is_the_same_day(bench: Bench) -> None:
    """Values that depend on the time alone: then order cannot matter at all."""
    plant = await bench.plant(["D"])
    snapshots = [
        snapshot(second, {"x": second}, D={key: second + n for n, key in enumerate("abc") if (second >> n) % 3})
        for second in range(300)
    ]
    messages = [plant.message(one) for one in snapshots] * 2
    random.Random(4).shuffle(messages)
    for part in _batched(messages, 37):
        await bench.take(*part)
    expected: Values = {"x": {moment(second): second for second in range(300)}}
    for n, key in enumerate("abc"):
        expected[f"D.{key}"] = {moment(second): second + n for second in range(300) if (second >> n) % 3}
    assert await values_of(plant) == expected


def _batched(items: list[Any], size: int) -> list[list[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
