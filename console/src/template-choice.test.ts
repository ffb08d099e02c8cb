import { expect, test } from "vitest";
import type { DeviceTemplate } from "./devices";
import { nameAmong, templateFor } from "./template-choice";

function template(name: string, signals: DeviceTemplate["signals"], version = 1): DeviceTemplate {
  return { id: `${name} ${version}`, name, version, signals } as DeviceTemplate;
}

const battery = template("Battery", [
  { key: "soc", field: "soc" },
  { key: "voltage", field: "raw_voltage" },
]);
const inverter = template("Inverter", [
  { key: "power", field: "power" },
  { key: "fault", bit: 3, word: "flags" },
  { key: "ready", bit: 0 },
]);

test("the template is the one that reads the device's fields", () => {
  expect(templateFor(["raw_voltage", "soc"], [inverter, battery])).toEqual({ template: battery, unread: [] });
  expect(templateFor(["status", "flags", "power", "age"], [battery, inverter])).toEqual({
    template: inverter,
    unread: ["age"],
  });
});

test("no template is chosen for a device that none describes", () => {
  expect(templateFor(["soc", "a", "b"], [battery, inverter])).toBeNull();
  expect(templateFor([], [battery, inverter])).toBeNull();
  expect(templateFor(["soc"], [])).toBeNull();
});

test("of several versions the highest is chosen, and of several names none", () => {
  const next = template("Battery", battery.signals, 2);
  expect(templateFor(["soc"], [battery, next])?.template).toBe(next);
  expect(templateFor(["soc"], [battery, next, template("Other", battery.signals)])).toBeNull();
});

test("a template of which there are several versions has its version in its name", () => {
  const templates = [battery, inverter, template("Battery", [], 2)];
  expect(templates.map((one) => nameAmong(one, templates, (version) => `version ${version}`))).toEqual([
    "Battery, version 1",
    "Inverter",
    "Battery, version 2",
  ]);
});
