/** CSV files: of plants, as the service reads them, and of what the console shows. */

import { sortableTimeIn } from "./format/times";
import type { Columns } from "./plants";

/** Return the separator of a file: what its first line has more often, commas or semicolons. */
export function separatorOf(text: string): "," | ";" {
  const [line = ""] = text.split("\n", 1);
  return line.split(";").length > line.split(",").length ? ";" : ",";
}

/**
 * Return the cells of each row, also of empty rows, so that the index of a row is its number in a spreadsheet less one.
 *
 * A cell in quotes may contain separators, line breaks and doubled quotes. Quotes within another cell belong to it.
 */
export function rowsOf(text: string): string[][] {
  const separator = separatorOf(text);
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let isQuoted = false;
  const endCell = () => {
    row.push(cell);
    cell = "";
  };
  const endRow = () => {
    endCell();
    rows.push(row);
    row = [];
  };
  for (let at = 0; at < text.length; at++) {
    const character = text[at] as string;
    if (isQuoted) {
      if (character !== '"') cell += character;
      else if (text[at + 1] === '"') {
        cell += '"';
        at++;
      } else isQuoted = false;
    } else if (character === '"' && cell === "") isQuoted = true;
    else if (character === separator) endCell();
    else if (character === "\n") endRow();
    else if (character !== "\r") cell += character;
  }
  if (cell !== "" || row.length > 0) endRow();
  return rows;
}

/** What a cell of a file is made from; nothing for an empty one. */
export type Cell = string | number | boolean | null | undefined;

/** Return rows as a CSV file, with commas and the line breaks of RFC 4180. */
export function csvText(rows: readonly (readonly Cell[])[]): string {
  return rows.map((row) => `${row.map(cellText).join(",")}\r\n`).join("");
}

/** A spreadsheet executes a text that begins like this, and a formula can send other cells to any address. */
const FORMULA = /^'*[=+\-@\t]/;

/**
 * Return a cell as it is written. A text that would be a formula has an apostrophe before it, as in the service's own files;
 * also one with apostrophes of its own, so that one can be taken away again.
 */
function cellText(cell: Cell): string {
  const isFormula = typeof cell === "string" && FORMULA.test(cell);
  const text = `${isFormula ? "'" : ""}${cell ?? ""}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** An error in a row, as the service words it. */
export interface RowError {
  /** Number of the row in a spreadsheet; the header is row 1. */
  row: number;
  column: string;
  complaint: string;
}

/** Return the errors that are about rows, such as `row 3 latitude: must be …`, and the other details. */
export function rowErrorsOf(details: readonly string[]): { rows: RowError[]; others: string[] } {
  const rows: RowError[] = [];
  const others: string[] = [];
  for (const detail of details) {
    const found = /^row (\d+) (.*)$/s.exec(detail);
    if (found === null) others.push(detail);
    else rows.push({ row: Number(found[1]), ...complaintOf(found[2] ?? "") });
  }
  return { rows, others };
}

/** Return column and text of a complaint such as `latitude: must be …`. */
export function complaintOf(text: string): { column: string; complaint: string } {
  const end = text.indexOf(": ");
  return end < 0 ? { column: "", complaint: text } : { column: text.slice(0, end), complaint: text.slice(end + 2) };
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
