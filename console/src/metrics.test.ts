import { expect, test } from "vitest";
import type { DeviceTemplate, SubDevice } from "./devices";
import { alarmOf, metricName, signWord, valueWord } from "./metrics";
import type { Signal } from "./signals";

const CHARGE = { key: "soc", field: "soc", label: "State of charge" } as Signal;
const RUNNING = { key: "running", word: "status", bit: 0 } as Signal;
const TEMPLATE = { id: "t", signals: [CHARGE, RUNNING] } as unknown as DeviceTemplate;
const BATTERY = { externalId: "BAT1", name: "Battery", templateId: "t" } as SubDevice;
const DEVICES = new Map([[BATTERY.externalId, BATTERY]]);

test("a metric has the name of its device and the label of its signal", () => {
  const name = (metric: string) => metricName(metric, "t", DEVICES, [TEMPLATE], (label) => label);
  expect(name("BAT1.soc")).toEqual({ device: "Battery", label: "State of charge", signal: CHARGE });
  expect(name("BAT1.running")).toEqual({ device: "Battery", label: "running", signal: RUNNING });
  expect(name("soc")).toEqual({ device: "", label: "State of charge", signal: CHARGE });
  expect(name("BAT1.gone")).toEqual({ device: "Battery", label: "gone", signal: undefined });
  expect(name("BAT2.soc")).toEqual({ device: "BAT2", label: "soc", signal: undefined });
  expect(metricName("soc", null, DEVICES, [TEMPLATE], (label) => label).label).toBe("soc");
});

test("bits and symbols are words", () => {
  const word = (signal: Signal | undefined, value: number) =>
    valueWord(signal, value, (isSet) => (isSet ? "yes" : "no"));
  expect(word(RUNNING, 1)).toBe("yes");
  expect(word(RUNNING, 0)).toBe("no");
  expect(word(CHARGE, 1)).toBeNull();
  expect(word(undefined, 1)).toBeNull();
  expect(word({ ...CHARGE, symbols: { "2": "Charging" } }, 2)).toBe("Charging");
  expect(word({ ...CHARGE, symbols: { "2": "Charging" } }, 3)).toBeNull();
});

test("the sign of a power at the grid or the battery is a word", () => {
  const grid_power = (sign: -1 | 0 | 1) => (sign > 0 ? "importing" : sign < 0 ? "exporting" : "");
  const word = (signal: Signal | undefined, value: number) => signWord(signal, value, { grid_power });
  expect(word({ ...CHARGE, role: "grid_power" }, 5)).toBe("importing");
  expect(word({ ...CHARGE, role: "grid_power" }, -0.0001)).toBe("exporting");
  expect(word({ ...CHARGE, role: "grid_power" }, 0)).toBe("");
  expect(word({ ...CHARGE, role: "pv_power" }, -5)).toBe("");
  expect(word(CHARGE, -5)).toBe("");
  expect(word(undefined, -5)).toBe("");
});

test("a bit of a severity that is set is an alarm", () => {
  const fault: Signal = { ...RUNNING, severity: "CRITICAL" };
  expect([alarmOf(fault, 1), alarmOf(fault, 0)]).toEqual(["CRITICAL", undefined]);
  expect([alarmOf({ ...fault, severity: "INFO" }, 1), alarmOf(RUNNING, 1), alarmOf(undefined, 1)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
