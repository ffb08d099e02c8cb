import { expect, test } from "vitest";
import { rowErrorsOf, rowsOf, separatorOf } from "./csv-rows";

test("cells in quotes keep separators, line breaks and quotes", () => {
  expect(rowsOf('name,serialNumber\r\n"Roof, east","SN ""1"""\r\n"two\nlines",SN-2')).toEqual([
    ["name", "serialNumber"],
    ["Roof, east", 'SN "1"'],
    ["two\nlines", "SN-2"],
  ]);
});

test("quotes within a cell belong to it", () => {
  expect(rowsOf('12" pipe,SN-1\nBarn,SN-2')).toEqual([
    ['12" pipe', "SN-1"],
    ["Barn", "SN-2"],
  ]);
});

test("empty rows are counted, and the end of the last line is no row", () => {
  expect(rowsOf("name\n\nBarn\n")).toEqual([["name"], [""], ["Barn"]]);
  expect(rowsOf("")).toEqual([]);
  expect(rowsOf("a,b,\n1,,")).toEqual([
    ["a", "b", ""],
    ["1", "", ""],
  ]);
});

test("the first line decides between commas and semicolons", () => {
  expect(separatorOf("a;b,c\n1,2,3,4")).toBe(",");
  expect(separatorOf("a;b;c,d")).toBe(";");
  expect(rowsOf("a;b\n1,5;2")).toEqual([
    ["a", "b"],
    ["1,5", "2"],
  ]);
});

test("errors of rows are separated from others", () => {
  expect(rowErrorsOf(["row 12 metadata.site: must be: short", "row 3 is odd", "header.name: is required"])).toEqual({
    rows: [
      { row: 12, column: "metadata.site", complaint: "must be: short" },
      { row: 3, column: "", complaint: "is odd" },
    ],
    others: ["header.name: is required"],
  });
});
