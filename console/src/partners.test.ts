import { expect, test } from "vitest";
import { networksOf } from "./partners";

test("networks are separated by lines, spaces or commas", () => {
  expect(networksOf(" 192.0.2.0/24,\n198.51.100.7/32  2001:db8::/32 ")).toEqual([
    "192.0.2.0/24",
    "198.51.100.7/32",
    "2001:db8::/32",
  ]);
  expect(networksOf(" \n")).toEqual([]);
});
