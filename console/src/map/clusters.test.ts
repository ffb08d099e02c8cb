import { expect, test } from "vitest";
import type { Place } from "../places";
import { clustersOf, type Point } from "./clusters";

function point(x: number, y: number, status: Place["properties"]["status"] = "ONLINE"): Point {
  const properties = { name: "Barn", status, lifecycleStatus: "ACTIVE", worstAlert: null } as const;
  return {
    x,
    y,
    place: { type: "Feature", id: `${x} ${y}`, geometry: { type: "Point", coordinates: [] }, properties },
  };
}

test("near plants are one mark in their middle, distant ones are not", () => {
  const marks = clustersOf([point(10, 10), point(11, 10, "OFFLINE"), point(100, 10)], 10);
  expect(marks.map(({ x, y, points, troubled }) => [x, y, points.length, troubled])).toEqual([
    [10.5, 10, 2, 1],
    [100, 10, 1, 0],
  ]);
});

test("plants that a larger zoom separates have marks of their own", () => {
  const points = [point(10, 10), point(11, 10)];
  expect(clustersOf(points, 10)).toHaveLength(1);
  expect(clustersOf(points, 100)).toHaveLength(2);
});

test("marks never overlap, and no plant is lost", () => {
  // A fixed sequence that looks like chance.
  const points = Array.from({ length: 1000 }, (_, index) => point((index * 97.31) % 200, (index * 31.77) % 200));
  const scale = 4;
  const marks = clustersOf(points, scale);
  expect(marks.reduce((sum, { points }) => sum + points.length, 0)).toBe(1000);
  const distances = marks.flatMap((one, index) =>
    marks.slice(index + 1).map((other) => Math.hypot(one.x - other.x, one.y - other.y) * scale),
  );
  expect(Math.min(...distances)).toBeGreaterThanOrEqual(44);
});
