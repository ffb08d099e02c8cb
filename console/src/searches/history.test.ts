import { expect, test } from "vitest";
import { fittingBuckets, historySearch, offeredMetrics, rangeOf } from "./history";

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

test("a link keeps a width that exists", () => {
  expect(historySearch({ bucket: "1 hour" }).bucket).toBe("1 hour");
  expect(historySearch({ bucket: "1 year" }).bucket).toBeUndefined();
});

test("the widths that are offered give at least two buckets and at most 40,000 values", () => {
  const day = { from: "2026-11-01T00:00:00Z", to: "2026-11-02T00:00:00Z" };
  expect(fittingBuckets(day, 4)).toEqual(expect.arrayContaining(["10 seconds", "12 hours"]));
  expect(fittingBuckets(day, 4)).not.toContain("1 day");
  expect(fittingBuckets(day, 5)[0]).toBe("30 seconds");
  expect(fittingBuckets({ ...day, to: "2036-11-01T00:00:00Z" }, 6)[0]).toBe("1 day");
});

test("a chosen metric that the plant no longer reports can be unchosen", () => {
  const soc = { metric: "BAT1.soc", unit: "%" };
  expect(offeredMetrics([soc], ["BAT1.soc", "BAT2.soc"])).toEqual([soc, { metric: "BAT2.soc", unit: null }]);
});
