import { type Cell, csvText } from "./csv";
import type { FleetPlant } from "./fleet";
import { saveFile } from "./ui/save-file";

const COLUMNS: readonly [heading: string, cellOf: (plant: FleetPlant) => Cell][] = [
  ["id", ({ id }) => id],
  ["name", ({ name }) => name],
  ["serialNumber", ({ serialNumber }) => serialNumber],
  ["status", ({ status }) => status],
  ["lifecycleStatus", ({ lifecycleStatus }) => lifecycleStatus],
  ["lastSeenAt", ({ lastSeenAt }) => lastSeenAt && new Date(lastSeenAt).toISOString()],
  ["worstAlert", ({ worstAlert }) => worstAlert],
  ["openAlerts", ({ openAlerts }) => openAlerts],
  ["pvKw", ({ power }) => power?.pvKw],
  ["batteryKw", ({ power }) => power?.batteryKw],
  ["gridKw", ({ power }) => power?.gridKw],
  ["loadKw", ({ power }) => power?.loadKw],
  ["fresh", ({ power }) => power?.fresh],
  ["soc", ({ soc }) => soc],
  ["producedTodayKwh", ({ energyToday }) => energyToday?.produced],
];

/** Let the browser save plants as a CSV file. */
export function savePlants(plants: readonly FleetPlant[]): void {
  saveFile("plants.csv", csvOfPlants(plants));
}

/** Return plants as a CSV file. Its headings are those of the API, in every language. */
export function csvOfPlants(plants: readonly FleetPlant[]): string {
  return csvText([
    COLUMNS.map(([heading]) => heading),
    ...plants.map((plant) => COLUMNS.map(([, cellOf]) => cellOf(plant))),
  ]);
}
