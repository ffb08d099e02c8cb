import { expect, test } from "vitest";
import type { DeviceTemplate, SubDevice } from "./devices";
import { sendCommand } from "./first-message";

const INVERTER = { id: "t", signals: [{ key: "power", field: "active_power" }] } as unknown as DeviceTemplate;
const device = (externalId: string, templateId: string | null) => ({ externalId, templateId }) as SubDevice;

test("the command has a field of each device's template", () => {
  expect(sendCommand("SN-1", [device("INV1", "t"), device("B", null)], [INVERTER])).toBe(
    "gridfleet send SN-1.json INV1.active_power=1 B.power=1",
  );
  expect(sendCommand("SN-1", [], [INVERTER])).toBe("gridfleet send SN-1.json power=1");
});

test("the command sends no reading of a counter, no state of charge and no bit", () => {
  const signals = [
    { key: "total", field: "total", kind: "counter" },
    { key: "imported", field: "imported", role: "energy_imported" },
    { key: "today", field: "today", unit: "kWh" },
    { key: "soc", field: "soc", unit: "%" },
    { key: "alarm", word: "status", bit: 0 },
  ];
  const meter = { id: "m", signals } as unknown as DeviceTemplate;
  const withPower = {
    id: "p",
    signals: [...signals, { key: "p", field: "p", unit: "kW" }],
  } as unknown as DeviceTemplate;
  expect(sendCommand("SN-1", [device("M", "m"), device("N", "p")], [meter, withPower])).toBe(
    "gridfleet send SN-1.json N.p=1",
  );
  expect(sendCommand("SN-1", [device("M", "m")], [meter])).toBe("gridfleet send SN-1.json power=1");
});

test("shells read every word as it is", () => {
  expect(sendCommand("Süd 1$", [device("it's", "t")], [INVERTER])).toBe(
    `gridfleet send 'Süd_1_.json' 'it'\\''s.active_power=1'`,
  );
});

test("the command names the file as browsers save it", () => {
  expect(sendCommand("A/1:2", [], [])).toBe("gridfleet send A_1_2.json power=1");
  expect(sendCommand("-n", [], [])).toBe("gridfleet send _n.json power=1");
});
