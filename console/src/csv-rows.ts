/** CSV files of plants, as the service reads them, and its errors about their rows. */

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
