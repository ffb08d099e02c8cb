import { expect, test } from "vitest";
import { age, axisLabels, clock, date, dateTime, until } from "./times";

const NOW = Date.parse("2026-11-23T08:00:00Z");

test.each([
  ["2026-11-23T09:00:07Z", "in 1 hour"],
  ["2026-11-23T08:59:40Z", "in 60 minutes"],
  ["2026-11-23T08:04:50Z", "in 5 minutes"],
])("%s is %s away", (time, text) => {
  expect(until(Date.parse(time), NOW, "en")).toBe(text);
});

test.each([
  ["2026-11-23T08:00:03Z", "now"],
  ["2026-11-23T07:59:18Z", "42 seconds ago"],
  ["2026-11-23T07:00:01Z", "59 minutes ago"],
  ["2026-11-23T07:00:00Z", "1 hour ago"],
  ["2026-11-21T08:00:01Z", "1 day ago"],
  ["2025-11-23T08:00:00Z", "365 days ago"],
])("%s is %s", (time, text) => {
  expect(age(time, NOW, "en")).toBe(text);
});

test("a short age says which unit it has", () => {
  expect(age("2026-11-23T07:58:00Z", NOW, "de", "short")).toBe("vor 2 Min.");
});

test("an axis says the date where a day begins in the zone", () => {
  const times = [20, 22, 24].map((hour) => Date.UTC(2026, 10, 22, hour) / 1000);
  expect(axisLabels(times, 7_200, "Europe/Berlin", "en-GB")).toEqual(["21:00\n22 Nov", "23:00", "01:00\n23 Nov"]);
  expect(axisLabels(times.slice(0, 1), 86_400, "UTC", "en-GB")).toEqual(["22 Nov"]);
  expect(axisLabels(times.slice(0, 1), 30, "UTC", "de")).toEqual(["20:00:00\n22. Nov."]);
});

test("the zone distinguishes both hours at the end of summer time", () => {
  expect(dateTime("2026-10-25T00:30:00Z", "Europe/Berlin", "en-GB")).toBe("25 Oct 2026, 02:30:00 CEST");
  expect(dateTime("2026-10-25T01:30:00Z", "Europe/Berlin", "en-GB")).toBe("25 Oct 2026, 02:30:00 CET");
});

test.each(["en-US", "en-GB", "de"])("midnight in %s is 00:00", (locale) => {
  expect(clock("2026-11-23T00:00:05Z", "UTC", locale)).toBe("00:00:05");
  expect(dateTime("2026-11-23T00:00:05Z", "UTC", locale)).toContain("00:00:05");
  expect(axisLabels([Date.UTC(2026, 10, 23) / 1000], 7_200, "UTC", locale)[0]).toMatch(/^00:00\n/);
});

test("a date is that of UTC", () => {
  expect(date("2026-11-23T23:30:00+01:00", "UTC", "en-GB")).toBe("23 Nov 2026");
  expect(date("2026-11-23T22:30:00-01:00", "Europe/Berlin", "de")).toBe("24.11.2026");
});
