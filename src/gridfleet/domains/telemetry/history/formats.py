"""Write points as text: a JSON array, NDJSON or CSV, page by page.

A day of 10 s values has 8,640 points, so the constant parts of a line are built once per series, and numbers are formatted in
bulk.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from itertools import islice, repeat
from math import inf
from typing import Final
from uuid import UUID

import msgspec

from gridfleet.domains.telemetry.history.models import BucketPoint, Newest, Page, Point, Series, SeriesPosition, SeriesValues

__all__ = ["PointWriter", "TextFormat", "points_json"]


class TextFormat(StrEnum):
    """Formats of points; the value is the media type."""

    JSON = "application/json"
    NDJSON = "application/x-ndjson"
    CSV = "text/csv"


_encode: Final = msgspec.json.Encoder().encode
_POINTS_A_PIECE: Final = 4_000
_MINUTE: Final = 60_000_000
_MINUTES_A_DAY: Final = 24 * 60
_FIRST_DAY: Final = date(2000, 1, 1).toordinal()


_seconds: Final[dict[int, str]] = {}
"""Cache of the text of seconds by milliseconds within the minute; at most 60,000 entries."""


def _json(value: str | None) -> str:
    return _encode(value).decode()


def _csv(value: str) -> str:
    return '"' + value.replace('"', '""') + '"' if any(character in value for character in ',"\r\n') else value


def _numbers(values: Sequence[float]) -> list[str]:
    """Return each number in its shortest decimal form that reads back as the same double."""
    return _encode(values)[1:-1].decode().split(",") if values else []


def _bucket_times(points: Sequence[BucketPoint]) -> Iterator[str]:
    """Yield the text of each bucket's start.

    Buckets begin at whole seconds, which msgspec formats in bulk, twelve times faster than `isoformat`.
    """
    texts = _encode([point.time for point in points])[1:-1].decode()
    return (f"{text[1:20]}.000Z" for text in texts.split(",")) if texts else iter(())


def _time_text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")[:23] + "Z"


def points_json(plant_id: UUID, points: Iterable[Newest]) -> bytes:
    """Return the newest values as a JSON array of `TelemetryPoint`s."""
    written: list[str] = []
    this_time = this_device = None
    time_text = dotted = named = ""
    units: dict[str | None, str] = {}
    after_time = f'","plant_id":"{plant_id}","metric":'
    for device, position, time, value in points:
        if time != this_time:
            this_time, time_text = time, _time_text(time)
        if device != this_device:
            this_device, dotted, named = device, f"{device}.", f'"subDevice":{_json(device)}'
        unit = units.get(position.unit) or units.setdefault(position.unit, _json(position.unit))
        flag = ""
        if not position.low <= value <= position.high:
            flag = ',"outOfRange":true' if named else '"outOfRange":true'
        written.append(
            f'{{"time":"{time_text}{after_time}{_json(dotted + position.key)},"value":{value!r},'
            f'"unit":{unit},"metadata":{{{named}{flag}}}}}'
        )
    return f"[{','.join(written)}]".encode()


@dataclass(frozen=True, slots=True)
class _Line:
    """The constant parts of a series' lines: the text after the time, and the text after the value.

    After the value comes `plain`, or `flagged` if it is out of range, or `bucket` followed by the aggregates.
    """

    position: SeriesPosition
    middle: str
    plain: str
    flagged: str
    bucket: str


class PointWriter:
    """Writes one response: call `pieces` with each page in order, then `finish`."""

    def __init__(self, plant_id: UUID, text_format: TextFormat) -> None:
        self._plant_id = plant_id
        self._json = text_format is not TextFormat.CSV
        # The comma is written before a point, because it is not known whether another page follows.
        self._start = {TextFormat.JSON: ',{"time":"', TextFormat.NDJSON: '{"time":"', TextFormat.CSV: ""}[text_format]
        self._stop = "" if text_format is TextFormat.JSON else "\n"
        self._commas_too_many = 1 if text_format is TextFormat.JSON else 0
        self._lines: dict[int, _Line] = {}
        self._opening = {TextFormat.JSON: "[", TextFormat.CSV: "time,plant_id,metric,value,unit\n"}.get(text_format, "")
        self._closing = "]" if text_format is TextFormat.JSON else ""

    def pieces(self, points: Page) -> Iterator[bytes]:
        """Yield the points of one page in pieces of 4,000 points, so that the caller can run other tasks in between."""
        lines = (
            self._series_lines(points)
            if isinstance(points, SeriesValues)
            else self._bucket_lines(points)
            if isinstance(points, list)
            else self._point_lines(points)
        )
        while text := "".join(islice(lines, _POINTS_A_PIECE)):
            piece = self._opening + text[self._commas_too_many :]
            self._opening, self._commas_too_many = "", 0
            yield piece.encode()

    def finish(self) -> bytes:
        """Return the text after the last page."""
        return (self._opening + self._closing).encode()

    def _series_lines(self, page: SeriesValues) -> Iterator[str]:
        line, position = self._line(page.series, page.series.positions[0]), page.series.positions[0]
        low, high = position.low, position.high
        ends: Iterable[str] = repeat(line.plain)
        if low != -inf or high != inf:
            ends = [line.plain if low <= value <= high else line.flagged for value in page.values]
        start, middle = self._start, line.middle
        this_minute = None
        head = ""
        for time, number, end in zip(page.times, _numbers(list(page.values)), ends, strict=False):
            minute = time // _MINUTE
            rest = (time - minute * _MINUTE) // 1_000
            if minute != this_minute:
                this_minute = minute
                day, of_day = divmod(minute, _MINUTES_A_DAY)
                head = f"{start}{date.fromordinal(_FIRST_DAY + day)}T{of_day // 60:02}:{of_day % 60:02}:"
            second = _seconds.get(rest)
            if second is None:
                second = _seconds[rest] = f"{rest // 1_000:02}.{rest % 1_000:03}Z"
            yield f"{head}{second}{middle}{number}{end}"

    def _point_lines(self, points: Iterator[Point]) -> Iterator[str]:
        this_time = None
        start = ""
        for time, series, position, value in points:
            if time != this_time:
                this_time = time
                start = self._start + _time_text(time)
            line = self._lines.get(id(position)) or self._line(series, position)
            yield f"{start}{line.middle}{value!r}{line.plain if position.low <= value <= position.high else line.flagged}"

    def _bucket_lines(self, points: Sequence[BucketPoint]) -> Iterator[str]:
        for (_, series, average, minimum, maximum, size), time in zip(points, _bucket_times(points), strict=True):
            line = self._lines.get(id(series.positions[0])) or self._line(series, series.positions[0])
            if self._json:
                aggregates = f'"min":{minimum!r},"max":{maximum!r},"count":{size}}}}}'
                yield f"{self._start}{time}{line.middle}{average!r}{line.bucket}{aggregates}{self._stop}"
            else:
                yield f"{self._start}{time}{line.middle}{average!r}{line.plain}"

    def _line(self, series: Series, position: SeriesPosition) -> _Line:
        line = self._lines.get(id(position))
        if line is None:  # the line keeps its position alive, so that its id() stays unique
            line = self._lines[id(position)] = self._new_line(series, position)
        return line

    def _new_line(self, series: Series, position: SeriesPosition) -> _Line:
        if not self._json:
            end = f",{_csv(position.unit or '')}{self._stop}"
            return _Line(position, f",{self._plant_id},{series.metric},", end, end, end)
        middle = f'","plant_id":"{self._plant_id}","metric":{_json(series.metric)},"value":'
        metadata = f',"unit":{_json(position.unit)},"metadata":{{'
        if series.sub_device is None:
            flagged = bucket = metadata
        else:
            metadata += f'"subDevice":{_json(series.sub_device)}'
            flagged = bucket = metadata + ","
        return _Line(position, middle, f"{metadata}}}}}{self._stop}", f'{flagged}"outOfRange":true}}}}{self._stop}', bucket)
