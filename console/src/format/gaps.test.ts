import { expect, test } from "vitest";
import { aloneIn, joined } from "./gaps";

test("values every third bucket are one line, an outage among them is a gap", () => {
  const values = [1, null, null, 2, null, null, 3, null, null, null, null, null, null, null, null, 4, null, null, 5];
  const gap = Array(8).fill(null);
  const between = [undefined, undefined];
  expect(joined(values)).toEqual([1, ...between, 2, ...between, 3, ...gap, 4, ...between, 5]);
});

test("one missing value among values of every bucket is joined, three are a gap", () => {
  expect(joined([1, 2, null, 3, null, null, null, 4, 5])).toEqual([1, 2, undefined, 3, null, null, null, 4, 5]);
});

test("what is before the first value and after the last one stays empty", () => {
  expect(joined([null, null])).toEqual([null, null]);
  expect(joined([null, 1, null])).toEqual([null, 1, null]);
});

test("a value between two gaps is drawn as a point", () => {
  expect(aloneIn([1, null, null, 2, null])).toEqual([0, 3]);
  expect(aloneIn([1, 2, null, 3, undefined, 4, null, null])).toEqual([]);
});
