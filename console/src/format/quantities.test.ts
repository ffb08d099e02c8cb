import { expect, test } from "vitest";
import { energies } from "./energy-axis";
import { converted, count, energy, exact, number, percent, power, unsignedPower } from "./quantities";

test.each([
  [0, "0 W"],
  [-0.0002, "0 W"],
  [0.0006, "1 W"],
  [0.007, "7 W"],
  [0.999, "999 W"],
  [0.9996, "1.00 kW"],
  [1.234, "1.23 kW"],
  [-12.345, "-12.3 kW"],
  [1e3, "1.00 MW"],
  [2.5e6, "2.50 GW"],
  [null, "–"],
  [undefined, "–"],
])("a power of %s kW is %s", (kilowatts, text) => {
  expect(power(kilowatts, "en")).toBe(text.replace(" ", "\u00a0"));
});

test("a word in place of the sign of a power leaves its amount", () => {
  expect([-1.5, 1.5, 0, null].map((kilowatts) => unsignedPower(kilowatts, "en").replace("\u00a0", " "))).toEqual([
    "1.50 kW",
    "1.50 kW",
    "0 W",
    "–",
  ]);
});

test.each([
  [51.3333, "51.33"],
  [9.8693, "9.87"],
  [0.04124, "0.0412"],
  [-0.00001234, "-0.0000123"],
  [12_345.6, "12,346"],
  [-0, "0"],
  [null, "–"],
])("a measured %s is %s", (value, text) => {
  expect(number(value, "en")).toBe(text);
});

test("a number has as many digits as are asked for, and all before the point", () => {
  expect([12.345, 0.012345, 123.45].map((value) => number(value, "en", 3))).toEqual(["12.3", "0.0123", "123"]);
  expect(number(1234.5, "en", 3)).toBe("1,235");
});

test("numbers have the separators of the language", () => {
  expect(energy(1234.567, "de")).toBe("1,23\u00a0MWh");
  expect(count(20_000, "de")).toBe("20.000");
  expect(percent(63.6, "en")).toBe("64\u00a0%");
  expect(percent(null, "en")).toBe("–");
});

test("an axis has one unit", () => {
  const shown = (amounts: number[]) => energies(amounts, "en").map((text) => text.replace("\u00a0", " "));
  expect(shown([0, 0.5, 1, 1.5])).toEqual(["0 kWh", "0.5 kWh", "1 kWh", "1.5 kWh"]);
  expect(shown([0, 0.2, 0.4])).toEqual(["0 Wh", "200 Wh", "400 Wh"]);
  expect(shown([0, 1])).toEqual(["0 kWh", "1 kWh"]);
});

test("a threshold is shown as it was entered", () => {
  expect(exact(49.85123, "Hz", "en")).toBe("49.85123\u00a0Hz");
  expect(exact(12_345.6, null, "en")).toBe("12,345.6");
});

test.each([
  [1.5, "kW", "W", 1500],
  [900, "W", "kW", 0.9],
  [2, "MWh", "kWh", 2000],
  [10, null, "kW", 10],
  [10, "%", "", 10],
  [10, "kW", "kWh", undefined],
  [10, "%", "kW", undefined],
])("%s %s in %s is %s", (value, unit, to, result) => {
  expect(converted(value, unit, to)).toBe(result);
});
