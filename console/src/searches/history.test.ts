import { expect, test } from "vitest";
import { historySearch, rangeOf } from "./history";

const NOW = Date.parse("2026-11-23T08:00:01Z");

test("a link without parameters shows the last 24 hours to the end of the minute", () => {
  expect(historySearch({})).toEqual({ last: "24h", metrics: undefined });
  expect(rangeOf({ last: "24h" }, NOW)).toEqual({ from: "2026-11-22T08:01:00.000Z", to: "2026-11-23T08:01:00.000Z" });
});

test("a fixed range wins over the last hours", () => {
  const range = { from: "2026-11-01T00:00:00.000Z", to: "2026-11-02T00:00:00.000Z" };
  const search = historySearch({ ...range, last: "1h", metrics: ["BAT1.soc", 5] });
  expect(search).toEqual({ ...range, metrics: ["BAT1.soc"] });
  expect(rangeOf(search, NOW)).toEqual(range);
});

test.each([
  { from: "2026-11-02T00:00:00Z", to: "2026-11-01T00:00:00Z" },
  { from: "yesterday", to: "2026-11-01T00:00:00Z" },
  { from: "2026-11-02T00:00:00Z" },
  { from: "+275760-09-13T00:00:00Z", to: "2026-11-01T00:00:00Z" },
  { last: "1y", metrics: "BAT1.soc" },
])("%o is replaced by the usual range", (search) => {
  expect(historySearch(search)).toEqual({ last: "24h", metrics: undefined });
});
