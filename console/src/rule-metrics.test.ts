import { expect, test } from "vitest";
import type { DeviceTemplate } from "./devices";
import type { Point } from "./plants";
import { keyChoices, plantChoices, unitOf } from "./rule-metrics";

const KEYS = keyChoices(
  [
    {
      signals: [
        { key: "soc", label: "State of charge of the site", unit: "%" },
        { key: "active_power", label: "Power", unit: "kW" },
      ],
    },
    {
      signals: [
        { key: "soc", label: "State of charge", unit: "%" },
        { key: "active_power", unit: "W" },
        { key: "fault" },
      ],
    },
  ] as unknown as DeviceTemplate[],
  (label) => label,
);

test("a key is offered once, with a unit that all its signals have", () => {
  expect(KEYS).toEqual([
    { metric: "active_power", label: "Power", unit: "" },
    { metric: "fault", label: "fault", unit: "" },
    { metric: "soc", label: "State of charge", unit: "%" },
  ]);
  expect([unitOf("soc", KEYS), unitOf("active_power", KEYS), unitOf("paint", KEYS)]).toEqual(["%", "", ""]);
});

test("a plant's metrics have the units of their newest values", () => {
  const point = (metric: string, unit: string | null) => ({ metric, unit }) as Point;
  const choices = plantChoices([point("soc", null), point("BAT1.soc", "%"), point("GRID.active_power", "W")], KEYS);
  expect(choices.map(({ label }) => label)).toEqual(["State of charge", "BAT1 · State of charge", "GRID · Power"]);
  expect([unitOf("BAT1.soc", choices), unitOf("active_power", choices), unitOf("soc", choices)]).toEqual([
    "%",
    "W",
    "",
  ]);
});
