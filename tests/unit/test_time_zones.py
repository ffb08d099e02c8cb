"""Time zones: their names and their rules."""

import itertools
import subprocess
import sys
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from zoneinfo import available_timezones

import pytest

from gridfleet.kernel.clock import LONGEST_MONTH
from gridfleet.kernel.time_zones import is_time_zone, time_zone, time_zone_names


def test_every_name_has_its_zone() -> None:
    assert len(time_zone_names()) > 500
    for name in time_zone_names():
        assert time_zone(name).key == name


def test_no_name_that_the_machine_knows_is_refused_except_those_that_are_no_place() -> None:
    assert available_timezones() - time_zone_names() <= {"Factory", "localtime"}


@pytest.mark.parametrize(
    "name", ["UTC", "Europe/Prague", "US/Eastern", "Europe/Kyiv", "Europe/Kiev", "Asia/Kathmandu", "Etc/GMT+5"]
)
def test_current_and_former_names(name: str) -> None:
    assert is_time_zone(name)


@pytest.mark.parametrize(
    "name",
    ["", "europe/prague", "Europe/Atlantis", "+02:00", "localtime", "Factory", "../UTC", "/etc/passwd", "UTC\0", "Europe"],
)
def test_other_texts(name: str) -> None:
    assert not is_time_zone(name)


def test_names_do_not_depend_on_what_the_machine_installed() -> None:
    """An image without time zones: PYTHONTZPATH is empty."""
    program = (
        "from gridfleet.kernel.time_zones import time_zone, time_zone_names as names\n"
        "print(len(names()), time_zone('US/Eastern').key, all(time_zone(name) for name in names()))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONTZPATH": ""}, capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.split() == [str(len(time_zone_names())), "US/Eastern", "True"]


def test_rules_do_not_depend_on_what_the_machine_installed(tmp_path: Path) -> None:
    """A system whose time zones are another release's: there, Prague has the hours of Tokyo."""
    (tmp_path / "Europe").mkdir()
    tokyo = files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes()
    (tmp_path / "Europe" / "Prague").write_bytes(tokyo)
    program = (
        "from datetime import datetime\n"
        "from zoneinfo import ZoneInfo\n"
        "from gridfleet.kernel.time_zones import time_zone\n"
        "for zone in (ZoneInfo('Europe/Prague'), time_zone('Europe/Prague')):\n"
        "    print(datetime(2026, 7, 1, tzinfo=zone).utcoffset())"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONTZPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert found.stdout.split() == ["9:00:00", "2:00:00"]


def test_a_month_of_any_zone_fits_into_a_range() -> None:
    """Antarctica/Troll sets its clocks back by two hours each October, and Antarctica/Casey has done so by three."""
    starts = [(year, month) for year in range(2010, 2041) for month in range(1, 13)]
    for name in time_zone_names():
        zone = time_zone(name)
        moments = [datetime(year, month, 1, tzinfo=zone).astimezone(UTC) for year, month in starts]
        assert max(after - before for before, after in itertools.pairwise(moments)) <= LONGEST_MONTH, name
