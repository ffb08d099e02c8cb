import { expect, test } from "vitest";
import { columnsCsv, csvText } from "./csv";
import { rowsOf } from "./csv-rows";

test("numbers are written without rounding, and nothing as an empty cell", () => {
  expect(
    csvText([
      ["pvKw", "fresh", "soc"],
      [1234.56789, true, null],
      [-0.25, false, undefined],
      [0, "", 1e21],
    ]),
  ).toBe("pvKw,fresh,soc\r\n1234.56789,true,\r\n-0.25,false,\r\n0,,1e+21\r\n");
  expect(csvText([])).toBe("");
});

test("cells with separators, quotes or line breaks are quoted", () => {
  const rows = [["Roof, east", '12" pipe', "two\nlines", "two\r\nlines", "Süd; 1"]];
  expect(csvText(rows)).toBe('"Roof, east","12"" pipe","two\nlines","two\r\nlines",Süd; 1\r\n');
  expect(rowsOf(csvText([["name"], ...rows]))).toEqual([["name"], ...rows]);
});

test.each(["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "'=1", "=1,2"])("the text %j is no formula", (text) => {
  expect(rowsOf(csvText([[text]]))).toEqual([[`'${text}`]]);
});

test("nor is what follows a semicolon in it", () => {
  expect(csvText([["a; =1;'+2;;-3;b=4;5"]])).toBe("a; '=1;''+2;;'-3;b=4;5\r\n");
});

test.each(["Barn", "1-2", "a=b", "'Barn", " =1", ""])("the text %j is written as it is", (text) => {
  expect(csvText([[text]])).toBe(`${text}\r\n`);
});

test("a chart is saved with a row for each bucket, also in the hour that clocks repeat", () => {
  const soc = { metric: "BAT1.soc", unit: "%", average: [50, null], min: [49.5, null], max: [51, null] };
  const columns = {
    plantId: "",
    bucket: "1 hour" as const,
    times: ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"],
    columns: [soc, { ...soc, metric: "count", unit: "" }],
  };
  expect(columnsCsv(columns, "Europe/Vienna").split("\r\n")).toEqual([
    "time,time (Europe/Vienna),BAT1.soc (%) average,BAT1.soc (%) min,BAT1.soc (%) max,count average,count min,count max",
    "2026-10-25T00:00:00Z,2026-10-25 02:00:00,50,49.5,51,50,49.5,51",
    "2026-10-25T01:00:00Z,2026-10-25 02:00:00,,,,,,",
    "",
  ]);
});
