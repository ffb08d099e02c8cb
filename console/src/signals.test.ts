import { expect, test } from "vitest";
import { decoded, fieldOf, isPlausible, signalOf, symbolLines } from "./signals";

test.each([
  ["215", -18.5],
  ["403", 0.3],
  ["413", 1.3],
  ["-1e2", -50],
  ["true", -39.9],
  ["1e400", null],
  ["0x10", null],
  ["12 ", null],
  ["", null],
])("a scaled signal stores for %s: %s", (raw, value) => {
  expect(decoded({ key: "temperature", field: "t", scale: 0.1, offset: -40 }, raw)).toBe(value);
});

test.each([
  [1e-7, 3, 3e-7],
  [0.9, 1e308, 9e307],
  [0.12345678901234568, 3, 0.12345678901234568 * 3],
])("a scale of %d makes %d to %d", (scale, raw, value) => {
  expect(decoded({ key: "a", field: "a", scale }, String(raw))).toBe(value);
});

test.each([
  ["4", 1],
  ["3", 0],
  ["4.0", 1],
  ["-0", 0],
  ["4.5", null],
  ["-4", null],
  ["true", null],
  ["18446744073709551615", 1],
  ["18446744073709551616", null],
])("bit 2 of the word %s is %s", (raw, value) => {
  expect(decoded({ key: "fault", bit: 2 }, raw)).toBe(value);
});

test("the lowest of 64 bits is kept, and a bit can be inverted", () => {
  expect(decoded({ key: "a", bit: 0 }, "9223372036854775809")).toBe(1);
  expect(decoded({ key: "a", bit: 63, invert: true }, "9223372036854775809")).toBe(0);
});

test("limits belong to the plausible values", () => {
  expect([-1, 0, 100, 101].map((value) => isPlausible({ key: "soc", min: 0, max: 100 }, value))).toEqual([
    false,
    true,
    true,
    false,
  ]);
});

test("a binary signal reads the field status unless it names another", () => {
  expect(fieldOf({ key: "a", bit: 1 })).toBe("status");
  expect(fieldOf({ key: "a", bit: 1, word: "alarms" })).toBe("alarms");
});

test("a form describes a signal by the fields that are filled", () => {
  const form = new FormData();
  for (const [name, value] of Object.entries({
    key: "mode",
    label: "",
    field: "m",
    scale: "0.1",
    symbols: "0 = Off\n\n1=a=b",
  }))
    form.set(name, value);
  const signal = signalOf(form);
  expect(signal).toEqual({ key: "mode", field: "m", scale: 0.1, symbols: { "0": "Off", "1": "a=b" } });
  expect(symbolLines(signal.symbols)).toBe("0 = Off\n1 = a=b");
});
