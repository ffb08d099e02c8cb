/** CSV files of what the console shows. */

import { sortableTimeIn } from "./format/times";
import type { Columns } from "./plants";

/** What a cell of a file is made from; nothing for an empty one. */
export type Cell = string | number | boolean | null | undefined;

/** Return rows as a CSV file, with commas and the line breaks of RFC 4180. */
export function csvText(rows: readonly (readonly Cell[])[]): string {
  return rows.map((row) => `${row.map(cellText).join(",")}\r\n`).join("");
}

/**
 * A spreadsheet executes a text that begins like this, and a formula can send other cells to any address. Where the semicolon
 * is the separator of lists, it splits a text there.
 */
const FORMULA = /(^|;\s*)('*[=+\-@\t])/g;

/**
 * Return a cell as it is written. A text that would be a formula has an apostrophe before it, as in the service's own files;
 * also one with apostrophes of its own, so that one can be taken away again.
 */
function cellText(cell: Cell): string {
  const text = typeof cell === "string" ? cell.replace(FORMULA, "$1'$2") : `${cell ?? ""}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Return what a chart shows as CSV: a row for each bucket, its time in UTC and in a zone, and three columns for each metric. */
export function columnsCsv({ times, columns }: Columns, timeZone: string): string {
  const local = sortableTimeIn(timeZone);
  const heading = columns.flatMap(({ metric, unit }) => {
    const name = unit ? `${metric} (${unit})` : metric;
    return [`${name} average`, `${name} min`, `${name} max`];
  });
  const rows = times.map((time, at) => [
    time,
    local(time),
    ...columns.flatMap(({ average, min, max }) => [average[at] ?? null, min[at] ?? null, max[at] ?? null]),
  ]);
  return csvText([["time", `time (${timeZone})`, ...heading], ...rows]);
}
