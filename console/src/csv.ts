/** CSV files: of plants, as the service reads them, and of what the console shows. */

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

/** A mistake in a row, as the service words it. */
export interface RowMistake {
  /** Number of the row in a spreadsheet; the header is row 1. */
  row: number;
  column: string;
  complaint: string;
}

/** Return the mistakes that are about rows, such as `row 3 latitude: must be …`, and the other details. */
export function mistakesOf(details: readonly string[]): { rows: RowMistake[]; others: string[] } {
  const rows: RowMistake[] = [];
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

/** Return rows as CSV (RFC 4180). A text that a spreadsheet would take for a formula begins with an apostrophe. */
export function csvText(rows: readonly (readonly (string | number | null)[])[]): string {
  return rows.map((row) => `${row.map(cellOf).join(",")}\r\n`).join("");
}

function cellOf(value: string | number | null): string {
  if (typeof value !== "string") return value === null ? "" : String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Return what a chart shows as CSV: a row for each bucket, its times in UTC, and three columns for each metric. */
export function columnsCsv({ times, columns }: Columns): string {
  const heading = columns.flatMap(({ metric, unit }) => {
    const name = unit ? `${metric} (${unit})` : metric;
    return [`${name} average`, `${name} min`, `${name} max`];
  });
  const rows = times.map((time, at) => [
    time,
    ...columns.flatMap(({ average, min, max }) => [average[at] ?? null, min[at] ?? null, max[at] ?? null]),
  ]);
  return csvText([["time", ...heading], ...rows]);
}
