import { expect, test } from "vitest";
import { alertSearch } from "./alerts";
import { auditSearch } from "./audit";
import { energySearch } from "./energy";
import { fleetSearch } from "./fleet";
import { historySearch } from "./history";
import { listSearch } from "./list";
import { loginSearch } from "./login";
import { newPlantSearch } from "./new-plant";
import { pageSearch } from "./page";
import { siteSearch, sitesSearch } from "./trading";
import { isLastPage, textOf } from "./values";

const PLANT = "0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6d";

test("a later step needs a plant", () => {
  expect(newPlantSearch({ step: 3 })).toEqual({});
  expect(newPlantSearch({ plant: "../x", step: 3 })).toEqual({});
  expect(newPlantSearch({ plant: PLANT, step: "3" })).toEqual({ plant: PLANT, step: 3 });
  expect(newPlantSearch({ plant: PLANT, step: 9, page: 2 })).toEqual({ plant: PLANT, step: 2, page: 2 });
});

test("no page is offered that the service does not return", () => {
  expect([1, 2].map((page) => isLastPage({ page, totalPages: 2 }))).toEqual([false, true]);
  expect([999, 1000].map((page) => isLastPage({ page, totalPages: 1234 }))).toEqual([false, true]);
});

test("a link to changes keeps what exists", () => {
  expect(auditSearch({ subject: "PLANT", actor: PLANT, page: "3" })).toEqual({
    subject: "PLANT",
    actor: PLANT,
    page: 3,
  });
  expect(auditSearch({ subject: "NOTHING", actor: "otto", page: -1 })).toEqual({});
});

test("a link to a list keeps a text and a page that may exist", () => {
  expect(listSearch({ q: " otto ", page: "2" })).toEqual({ q: "otto", page: 2 });
  expect(listSearch({ q: "", page: 1 })).toEqual({});
  expect(listSearch({ q: [5], page: "x" })).toEqual({});
});

test("a link to alerts keeps what exists", () => {
  expect(alertSearch({ status: ["ACTIVE", "GONE"], severity: ["CRITICAL"], page: "2" })).toEqual({
    status: ["ACTIVE"],
    severity: ["CRITICAL"],
    page: 2,
  });
  expect(alertSearch({ status: "ACTIVE", severity: ["ALL"], page: 1001 })).toEqual({});
});

test("a link to alerts keeps times that are a range", () => {
  expect(alertSearch({ from: "2026-11-23T09:15Z" })).toEqual({ from: "2026-11-23T09:15:00.000Z" });
  expect(alertSearch({ from: "2026-11-23T09:15Z", to: "2026-11-24T00:00Z" })).toEqual({
    from: "2026-11-23T09:15:00.000Z",
    to: "2026-11-24T00:00:00.000Z",
  });
  expect(alertSearch({ from: "2026-11-24T00:00Z", to: "2026-11-23T00:00Z" })).toEqual({});
  expect(alertSearch({ from: "yesterday", to: 5 })).toEqual({});
});

test("a link to the fleet keeps what exists", () => {
  expect(
    fleetSearch({
      status: ["UNKNOWN", "OFFLINE", "GONE"],
      lifecycleStatus: ["SUSPENDED", "LOST"],
      groupId: PLANT,
      templateId: "../x",
      refused: true,
      sort: "createdAt",
      view: "map",
    }),
  ).toEqual({
    status: ["OFFLINE", "UNKNOWN"],
    lifecycleStatus: ["SUSPENDED"],
    groupId: PLANT,
    refused: true,
    sort: "createdAt",
    view: "map",
  });
  expect(fleetSearch({ lifecycleStatus: "ACTIVE", groupId: [PLANT], refused: "yes", sort: "size" })).toEqual({});
});

test("a link to sites keeps what exists", () => {
  expect(sitesSearch({ q: " barn ", state: "fallback", page: "2" })).toEqual({ q: "barn", state: "fallback", page: 2 });
  expect(sitesSearch({ q: {}, state: "gone", page: 1001 })).toEqual({});
});

test("a link to a site keeps what exists", () => {
  expect(siteSearch({ at: "2026-11-23T09:15:00Z", hours: "6", type: "CONFIG", page: 3 })).toEqual({
    at: "2026-11-23T09:15:00.000Z",
    hours: 6,
    type: "CONFIG",
    page: 3,
  });
  expect(siteSearch({ at: "yesterday", hours: 7, type: "ORDER", page: 0 })).toEqual({});
});

test("objects that convert to nothing are no numbers", () => {
  const object = JSON.parse('{"toString": 1, "valueOf": 1}');
  expect(pageSearch({ page: object })).toEqual({});
  expect(siteSearch({ hours: object, page: object })).toEqual({});
  expect(newPlantSearch({ plant: PLANT, step: object })).toEqual({ plant: PLANT, step: 2 });
});

test("a time that not every zone can show is none", () => {
  expect(siteSearch({ at: "+275760-09-13T00:00:00Z" })).toEqual({});
  expect(siteSearch({ at: "-000001-01-01T00:00:00Z" })).toEqual({});
});

test("halves of characters are left out of a text", () => {
  expect(textOf(JSON.parse('"a\\ud800b"'))).toBe("ab");
  expect(textOf(`${"x".repeat(99)}😀`)).toBe("x".repeat(99));
  expect(textOf("😀")).toBe("😀");
  expect([100234, Number.NaN].map(textOf)).toEqual(["100234", undefined]);
});

test("a link to rules keeps a page that may exist", () => {
  expect([pageSearch({ page: "3" }), pageSearch({ page: 1 }), pageSearch({ page: "x" })]).toEqual([
    { page: 3 },
    {},
    {},
  ]);
});

test.each([
  ["/o/demo/fleet?q=x", "/o/demo/fleet?q=x"],
  ["https://example.org", undefined],
  ["//example.org", undefined],
  ["/\\example.org", undefined],
  [5, undefined],
])("after the login, %s leads to %s", (next, path) => {
  expect(loginSearch({ next })).toEqual({ next: path });
});

test.each([
  ["Europe/Berlin", "Europe/Berlin"],
  ["europe/berlin", "Europe/Berlin"],
  ["Asia/Kolkata", "Asia/Kolkata"],
  ["Asia/Calcutta", "Asia/Calcutta"],
  ["asia/kolkata", "Asia/Calcutta"],
  ["US/Eastern", "US/Eastern"],
  ["UTC", "UTC"],
  ["Mars/Base", undefined],
  ["+01:00", undefined],
  ["", undefined],
  [["UTC"], undefined],
])("times of a link in %j are shown in %s", (timeZone, shown) => {
  expect(historySearch({ timeZone }).timeZone).toBe(shown);
  expect(energySearch({ timeZone }).timeZone).toBe(shown);
});

// The router keeps members of a link that the page's search leaves out.
test.each([
  [auditSearch, { subject: "NOTHING", actor: "otto" }],
  [alertSearch, { from: "2026-11-24T00:00:00Z", to: "2026-11-23T00:00:00Z" }],
  [newPlantSearch, { plant: "../x", step: 3 }],
  [energySearch, { timeZone: "Mars/Base" }],
  [historySearch, { from: "2026-11-02T00:00:00Z", to: "2026-11-01T00:00:00Z" }],
])("%o takes out of a link what it does not understand", (search, link) => {
  expect(Object.keys({ ...search(link) })).toEqual(expect.arrayContaining(Object.keys(link)));
});
