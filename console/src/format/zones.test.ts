import { expect, test } from "vitest";
import {
  dateIn,
  isoDate,
  localText,
  moved,
  parseDate,
  parseLocal,
  rangeOfPeriod,
  startOfDay,
  yearBefore,
} from "./zones";

const HOUR = 3_600_000;

test.each([
  ["Europe/Berlin", "2026-03-29", 23],
  ["Europe/Berlin", "2026-10-25", 25],
  ["Europe/Berlin", "2026-06-01", 24],
  // Clocks skip midnight, or show it twice.
  ["America/Santiago", "2026-09-06", 23],
  ["America/Santiago", "2026-04-04", 25],
  ["Africa/Cairo", "2026-04-24", 23],
  ["Australia/Lord_Howe", "2026-10-04", 23.5],
  ["Asia/Kathmandu", "2026-01-01", 24],
  ["Pacific/Kiritimati", "2026-01-01", 24],
])("a day in %s on %s has %d hours", (zone, text, hours) => {
  const date = parseDate(text);
  if (date === undefined) throw new Error(text);
  const { start, end } = rangeOfPeriod(zone, "day", date);
  expect((end - start) / HOUR).toBe(hours);
  expect(isoDate(dateIn(zone, start))).toBe(text);
  expect(isoDate(dateIn(zone, start - 1))).toBe(isoDate(moved("day", date, -1)));
});

test("months and years begin on their first day in the zone", () => {
  const { start, end } = rangeOfPeriod("America/New_York", "month", { year: 2026, month: 11, day: 23 });
  expect(new Date(start).toISOString()).toBe("2026-11-01T04:00:00.000Z");
  expect(new Date(end).toISOString()).toBe("2026-12-01T05:00:00.000Z");
  expect(isoDate(moved("year", { year: 2026, month: 11, day: 23 }, -1))).toBe("2025-01-01");
  expect(isoDate(moved("month", { year: 2026, month: 1, day: 31 }, 1))).toBe("2026-02-01");
  expect(startOfDay("UTC", { year: 2026, month: 12, day: 32 })).toBe(Date.UTC(2027, 0, 1));
});

test("a year before 29 February is 28 February", () => {
  expect(isoDate(yearBefore({ year: 2024, month: 2, day: 29 }))).toBe("2023-02-28");
  expect(isoDate(yearBefore({ year: 2025, month: 2, day: 28 }))).toBe("2024-02-28");
  expect(isoDate(yearBefore({ year: 2026, month: 11, day: 30 }))).toBe("2025-11-30");
});

test.each(["2026-02-30", "2026-13-01", "26-01-01", "today", ""])("%s is no date", (text) => {
  expect(parseDate(text)).toBeUndefined();
});

test.each([
  ["Europe/Berlin", "2026-11-23T09:15", "2026-11-23T08:15:00.000Z"],
  ["Europe/Berlin", "2026-07-01T00:30", "2026-06-30T22:30:00.000Z"],
  ["Asia/Kathmandu", "2026-01-01T12:00", "2026-01-01T06:15:00.000Z"],
])("clocks in %s show %s at %s", (zone, local, time) => {
  expect(parseLocal(zone, local)).toBe(Date.parse(time));
  expect(localText(zone, Date.parse(time))).toBe(local);
});

test.each(["2026-11-23", "2026-11-23 09:15", "now", ""])("%s is no time", (text) => {
  expect(parseLocal("UTC", text)).toBeUndefined();
});

test("a text that is left as it is keeps its time, also in an hour that clocks show twice", () => {
  for (const time of ["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z"]) {
    expect(parseLocal("Europe/Berlin", "2026-10-25T02:30", time)).toBe(Date.parse(time));
  }
  expect(parseLocal("UTC", "2026-10-25T02:30", "2026-10-25T02:31:00Z")).toBe(Date.UTC(2026, 9, 25, 2, 30));
});
