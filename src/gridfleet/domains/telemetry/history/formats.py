"""Points as text: a JSON array, NDJSON, or CSV, written page by page.

A day of 10 s values has 8,640 points, so the parts of a line that do not change are put together once for a series, and
numbers are printed in bulk.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from enum import StrEnum
from math import inf
from typing import Final
from uuid import UUID

import msgspec

from gridfleet.domains.telemetry.history.models import BucketPoint, Place, Point, Series, SeriesValues

__all__ = ["PointWriter", "TextFormat"]


class TextFormat(StrEnum):
    """How points are written; the value is the media type."""

    JSON = "application/json"
    NDJSON = "application/x-ndjson"
    CSV = "text/csv"


_encode: Final = msgspec.json.Encoder().encode
_MINUTE: Final = 60_000_000
_MINUTES_A_DAY: Final = 24 * 60
_FIRST_DAY: Final = date(2000, 1, 1).toordinal()


def _json(value: str | None) -> str:
    return _encode(value).decode()


def _csv(value: str) -> str:
    return '"' + value.replace('"', '""') + '"' if any(character in value for character in ',"\r\n') else value


def _numbers(values: Sequence[float]) -> list[str]:
    """Each number in its shortest decimal form that reads back as the same double."""
    return _encode(values)[1:-1].decode().split(",") if values else []


def _time_text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")[:23] + "Z"


class _Line:
    """The parts of a series' lines: time, `middle`, value, then `plain` or, for a value out of range, `flagged`."""

    __slots__ = ("flagged", "middle", "plain")

    def __init__(self, middle: str, plain: str, flagged: str) -> None:
        self.middle = middle
        self.plain = plain
        self.flagged = flagged


class PointWriter:
    """Writes one answer: `opening`, pages in their order, `closing`."""

    def __init__(self, plant_id: UUID, text_format: TextFormat) -> None:
        self._plant_id = plant_id
        self._json = text_format is not TextFormat.CSV
        # A comma comes before a point, since a page does not know whether another follows.
        self._start = {TextFormat.JSON: ',{"time":"', TextFormat.NDJSON: '{"time":"', TextFormat.CSV: ""}[text_format]
        self._stop = "" if text_format is TextFormat.JSON else "\n"
        self._drop_comma = text_format is TextFormat.JSON
        self._lines: dict[tuple[str, str | None], _Line] = {}
        self.opening = {TextFormat.JSON: b"[", TextFormat.CSV: b"time,plant_id,metric,value,unit\n"}.get(text_format, b"")
        self.closing = b"]" if text_format is TextFormat.JSON else b""

    def page(self, points: SeriesValues | Iterator[Point] | Iterator[BucketPoint]) -> bytes:
        """The points of one page; empty for none."""
        lines = self._series_lines(points) if isinstance(points, SeriesValues) else self._point_lines(points)
        text = "".join(lines)
        if self._drop_comma and text:
            self._drop_comma = False
            text = text[1:]
        return text.encode()

    def _series_lines(self, page: SeriesValues) -> list[str]:
        if not page.times:
            return []
        place = page.series.places[0]
        line = self._line(page.series, place)
        numbers = _numbers(page.values if isinstance(page.values, list) else list(page.values))
        starts = self._starts(page.times, line.middle)
        if place.low == -inf and place.high == inf:
            end = line.plain
            return [f"{start}{number}{end}" for start, number in zip(starts, numbers, strict=True)]
        low, high, plain, flagged = place.low, place.high, line.plain, line.flagged
        return [
            f"{start}{number}{plain if low <= value <= high else flagged}"
            for start, number, value in zip(starts, numbers, page.values, strict=True)
        ]

    def _starts(self, times: Iterable[int], middle: str) -> Iterator[str]:
        """Lines up to the value. Neighbours share their minute; points of other minutes share their second."""
        start = self._start
        this_minute = None
        head = ""
        seconds: dict[int, str] = {}
        for time in times:
            minute, rest = divmod(time, _MINUTE)
            if minute != this_minute:
                this_minute = minute
                day, of_day = divmod(minute, _MINUTES_A_DAY)
                head = f"{start}{date.fromordinal(_FIRST_DAY + day)}T{of_day // 60:02}:{of_day % 60:02}:"
            tail = seconds.get(rest)
            if tail is None:
                tail = seconds[rest] = f"{rest // 1_000_000:02}.{rest // 1_000 % 1_000:03}Z{middle}"
            yield head + tail

    def _point_lines(self, points: Iterator[Point] | Iterator[BucketPoint]) -> Iterator[str]:
        this_time = None
        start = ""
        for point in points:
            if point.time != this_time:
                this_time = point.time
                start = self._start + _time_text(point.time)
            if isinstance(point, Point):
                line = self._line(point.series, point.place)
                low, high = point.place.low, point.place.high
                yield f"{start}{line.middle}{point.value!r}{line.plain if low <= point.value <= high else line.flagged}"
            else:
                middle = self._line(point.series, point.series.places[0]).middle
                yield f"{start}{middle}{point.average!r}{self._bucket_end(point)}"

    def _line(self, series: Series, place: Place) -> _Line:
        line = self._lines.get((series.metric, place.unit))
        if line is None:
            line = self._lines[series.metric, place.unit] = self._new_line(series, place.unit)
        return line

    def _new_line(self, series: Series, unit: str | None) -> _Line:
        if not self._json:
            end = f",{_csv(unit or '')}{self._stop}"
            return _Line(f",{self._plant_id},{series.metric},", end, end)
        middle = f'","plant_id":"{self._plant_id}","metric":{_json(series.metric)},"value":'
        end = f',"unit":{_json(unit)},"metadata":{{'
        sub_device = "" if series.sub_device is None else f'"subDevice":{_json(series.sub_device)}'
        comma = "," if sub_device else ""
        return _Line(middle, f"{end}{sub_device}}}}}{self._stop}", f'{end}{sub_device}{comma}"outOfRange":true}}}}{self._stop}')

    def _bucket_end(self, point: BucketPoint) -> str:
        unit = point.series.unit
        if not self._json:
            return f",{_csv(unit or '')}{self._stop}"
        sub_device = "" if point.series.sub_device is None else f'"subDevice":{_json(point.series.sub_device)},'
        return (
            f',"unit":{_json(unit)},"metadata":{{{sub_device}"min":{point.minimum!r},"max":{point.maximum!r},'
            f'"count":{point.size}}}}}{self._stop}'
        )
