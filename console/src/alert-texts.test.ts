import { expect, test, vi } from "vitest";
import { sharedName } from "./alert-texts";
import type { DeviceTemplate } from "./devices";
import { de } from "./i18n/de";
import { en } from "./i18n/en";

// It reads the language of the browser.
vi.mock("./i18n", () => ({}));

const TEMPLATES = [
  {
    level: "PLANT",
    signals: [
      { key: "soc", label: "State of charge of the site", role: "soc" },
      { key: "active_power", label: "Power at the grid connection", role: "grid_power" },
    ],
  },
  {
    level: "SUB_DEVICE",
    signals: [
      { key: "soc", label: "State of charge", role: "soc" },
      { key: "active_power", label: "Active power", role: "battery_power" },
      { key: "temperature", label: "Temperature" },
    ],
  },
  { level: "SUB_DEVICE", signals: [{ key: "active_power", label: "Active power", role: "pv_power" }] },
] as unknown as DeviceTemplate[];

const HUMIDITY = [
  { level: "SUB_DEVICE", signals: [{ key: "humidity", label: "Relative humidity" }] },
] as unknown as DeviceTemplate[];

test.each([
  ["soc", true, "State of charge"],
  ["soc", false, "State of charge"],
  ["active_power", true, "Power of the grid"],
  // A rule about each of them.
  ["active_power", false, "active_power"],
  ["BAT1.active_power", true, "BAT1: Active power"],
  ["BAT1.temperature", false, "BAT1: Temperature"],
  ["temperature", true, "temperature"],
  ["BAT1.unknown", true, "BAT1: unknown"],
])("%s, of the plant itself: %s, is %s", (metric, isOfPlant, name) => {
  expect(sharedName(metric, TEMPLATES, en.templates, isOfPlant)).toBe(name);
});

test("labels of the system templates are in the user's language", () => {
  expect(sharedName("BAT1.temperature", TEMPLATES, de.templates, false)).toBe("BAT1: Temperatur");
  expect(sharedName("CAB1.humidity", HUMIDITY, de.templates, false)).toBe("CAB1: Relative Luftfeuchte");
});
