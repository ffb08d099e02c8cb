import { expect, test } from "vitest";
import { type Columns, drawnColumns, type Plant, plantChanges } from "./plants";

const PLANT = {
  name: "Winery",
  serialNumber: "W-1",
  timeZone: null,
  tag: "south",
  templateId: null,
  externalPlantId: null,
  latitude: 48.2,
  longitude: 16.4,
} as Plant;
const AS_SHOWN = {
  name: "Winery",
  serialNumber: "W-1",
  timeZone: "",
  tag: "south",
  templateId: "",
  externalPlantId: "",
  latitude: "48.2",
  longitude: "16.4",
};

function form(changed: Partial<typeof AS_SHOWN>): FormData {
  const made = new FormData();
  for (const [name, value] of Object.entries({ ...AS_SHOWN, ...changed })) made.set(name, value);
  return made;
}

test("a form that is left as it is changes nothing", () => {
  expect(plantChanges(PLANT, form({}))).toEqual({});
});

test("only what differs is sent, without spaces around it", () => {
  expect(plantChanges(PLANT, form({ name: " Old winery ", timeZone: "Europe/Vienna" }))).toEqual({
    name: "Old winery",
    timeZone: "Europe/Vienna",
  });
});

test("a cleared field is null", () => {
  expect(plantChanges(PLANT, form({ tag: "" }))).toEqual({ tag: null });
});

test("coordinates are sent together", () => {
  expect(plantChanges(PLANT, form({ longitude: "16.5" }))).toEqual({ latitude: 48.2, longitude: 16.5 });
  expect(plantChanges(PLANT, form({ latitude: "", longitude: "" }))).toEqual({ latitude: null, longitude: null });
});

test("a chart draws the metrics of its first two units", () => {
  const column = (metric: string, unit: string | null) => ({ metric, unit, average: [1], min: [1], max: [1] });
  const columns: Columns = {
    plantId: "",
    bucket: "1 hour",
    times: ["2026-11-23T00:00:00Z"],
    columns: [
      column("soc", "%"),
      column("power", "kW"),
      column("reactive", "kvar"),
      column("soh", "%"),
      column("n", null),
    ],
  };
  expect(drawnColumns(columns).columns.map(({ metric }) => metric)).toEqual(["soc", "power", "soh"]);
  expect(drawnColumns(columns).times).toEqual(columns.times);
});
