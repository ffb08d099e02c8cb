import { columnsCsv } from "./csv";
import type { Columns } from "./plants";
import { saveFile } from "./ui/save-file";

/** Let the browser save what the chart of a plant shows as a CSV file. */
export function saveColumns(plantId: string, columns: Columns, timeZone: string): void {
  saveFile(`${plantId}.csv`, columnsCsv(columns, timeZone));
}
