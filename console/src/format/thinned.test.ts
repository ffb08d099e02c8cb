import { expect, test } from "vitest";
import { meanIn, thinned } from "./thinned";

const chart = (count: number, value: (index: number) => number | null) => {
  const values = Array.from({ length: count }, (_, index) => value(index));
  const times = values.map((_, index) => `${index}`);
  return {
    plantId: "",
    bucket: "10 seconds" as const,
    times,
    columns: [{ metric: "m", unit: "kW", average: values, min: values, max: values }],
  };
};

test("a chart with few points stays as it is", () => {
  const few = chart(2_000, (index) => (index % 3 === 0 ? null : index));
  expect(thinned(few, 2_000)).toEqual(few);
  expect(
    thinned(
      chart(0, () => null),
      2_000,
    ).times,
  ).toEqual([]);
});

test("neighbours of a long chart are merged into their mean, least and greatest value", () => {
  const { times, columns } = thinned(
    chart(100_001, (index) => index),
    2_000,
  );
  expect(times).toHaveLength(1_961);
  expect(times.slice(0, 2)).toEqual(["0", "51"]);
  expect(columns[0]?.average.slice(0, 2)).toEqual([25, 76]);
  expect(columns[0]?.min.at(-1)).toBe(99_960);
  expect(columns[0]?.max.at(-1)).toBe(100_000);
});

test("merged neighbours are missing only if all of them are", () => {
  const { columns } = thinned(
    chart(4_000, (index) => (index < 2 || index === 3 ? null : index)),
    2_000,
  );
  expect(columns[0]?.average.slice(0, 3)).toEqual([null, 2, 4.5]);
});

const RANGE = { from: "2026-11-23T00:55:00.000Z", to: "2026-11-23T02:00:00.000Z" };
const HOURS = ["2026-11-23T00:00:00.000Z", "2026-11-23T01:00:00.000Z"];

test("a bucket counts in the mean of a range by how long it is in the range", () => {
  expect(meanIn(RANGE, HOURS, 3_600_000, [100, 0])).toBeCloseTo(500 / 65);
  expect(meanIn({ ...RANGE, to: "2026-11-23T01:05:00.000Z" }, HOURS, 3_600_000, [100, 0])).toBe(50);
});

test("only the first and the last bucket of a range are cut", () => {
  const times = [HOURS[0] as string, "is not read", "2026-11-23T02:00:00.000Z"];
  const range = { from: "2026-11-23T00:30:00.000Z", to: "2026-11-23T02:30:00.000Z" };
  expect(meanIn(range, times, 3_600_000, [100, 50, 0])).toBe(50);
});

test("buckets without a value do not count in the mean of a range", () => {
  expect(meanIn(RANGE, HOURS, 3_600_000, [100, null])).toBe(100);
  expect(meanIn(RANGE, HOURS, 3_600_000, [null, null])).toBeUndefined();
});
