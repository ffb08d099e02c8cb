import { expect, test } from "vitest";
import { aligned } from "./aligned";

test("values of another month are at the days of the same number", () => {
  expect(aligned(["27", "28", "29"], ["27", "28"], [1, 2])).toEqual([1, 2, null]);
  expect(aligned(["27", "28"], ["27", "28", "29"], [1, null, 3])).toEqual([1, null]);
});

test("hours that clocks skip or repeat are compared with the same hour of the clock", () => {
  const usual = ["01:00", "02:00", "03:00"];
  expect(aligned(["01:00", "02:00", "02:00", "03:00"], usual, [1, 2, 3])).toEqual([1, 2, null, 3]);
  expect(aligned(["01:00", "03:00"], usual, [1, 2, 3])).toEqual([1, 3]);
  expect(aligned(usual, ["01:00", "02:00", "02:00", "03:00"], [1, 2, 20, 3])).toEqual([1, 2, 3]);
});
