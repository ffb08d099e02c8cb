import { expect, test } from "vitest";
import { type SubDevice, subDeviceChanges, valuesOf } from "./devices";

function form(values: Record<string, string>): FormData {
  const made = new FormData();
  for (const [name, value] of Object.entries(values)) made.set(name, value);
  return made;
}

test("values have the types of their parameters", () => {
  const parameters = [
    { name: "power_kw", type: "number", required: true },
    { name: "steps", type: "integer", required: true },
    { name: "mode", type: "enum", required: true },
    { name: "force", type: "boolean", required: true },
  ] as const;
  const values = valuesOf([...parameters], form({ power_kw: "-2.5", steps: "3", mode: "eco", force: "on" }));
  expect(values).toEqual({ power_kw: -2.5, steps: 3, mode: "eco", force: true });
});

test("an empty optional field is not sent, a box without a tick is false", () => {
  const parameters = [
    { name: "note", type: "string", required: false },
    { name: "limit", type: "number", required: false },
    { name: "force", type: "boolean", required: true },
    { name: "quiet", type: "boolean", required: false },
  ] as const;
  expect(valuesOf([...parameters], form({ note: "", limit: "", quiet: "" }))).toEqual({ force: false });
});

test("an optional parameter that is true or false has a choice of three", () => {
  const parameters = [{ name: "quiet", type: "boolean", required: false }] as const;
  expect(valuesOf([...parameters], form({ quiet: "true" }))).toEqual({ quiet: true });
  expect(valuesOf([...parameters], form({ quiet: "false" }))).toEqual({ quiet: false });
});

test("only what differs from a device is changed, and a template can be given once", () => {
  const device = { name: "Battery", serialNumber: null, templateId: null } as SubDevice;
  const shown = { name: "Battery", serialNumber: "", templateId: "" };
  expect(subDeviceChanges(device, form(shown))).toEqual({});
  expect(subDeviceChanges(device, form({ ...shown, serialNumber: "B-1", templateId: "t" }))).toEqual({
    serialNumber: "B-1",
    templateId: "t",
  });
  expect(subDeviceChanges({ ...device, serialNumber: "B-1" }, form(shown))).toEqual({ serialNumber: "" });
});
