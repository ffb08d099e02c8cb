import { expect, test } from "vitest";
import { age, dateTime } from "./times";

const NOW = Date.parse("2026-11-23T08:00:00Z");

test.each([
  ["2026-11-23T08:00:03Z", "now"],
  ["2026-11-23T07:59:18Z", "42 seconds ago"],
  ["2026-11-23T07:00:01Z", "59 minutes ago"],
  ["2026-11-23T07:00:00Z", "1 hour ago"],
  ["2026-11-22T07:00:00Z", "yesterday"],
  ["2025-11-23T08:00:00Z", "365 days ago"],
])("%s is %s", (time, text) => {
  expect(age(time, NOW, "en")).toBe(text);
});

test("both hours of the end of summer time are told apart by the zone", () => {
  expect(dateTime("2026-10-25T00:30:00Z", "Europe/Berlin", "en-GB")).toBe("25 Oct 2026, 02:30:00 CEST");
  expect(dateTime("2026-10-25T01:30:00Z", "Europe/Berlin", "en-GB")).toBe("25 Oct 2026, 02:30:00 CET");
});
