import { expect, test } from "vitest";
import { contentOf, type LogEntry, lastHours, siteSearch, sitesSearch } from "./trading";

test("a link to sites keeps what exists", () => {
  expect(sitesSearch({ q: " barn ", state: "fallback", page: "2" })).toEqual({ q: "barn", state: "fallback", page: 2 });
  expect(sitesSearch({ q: 7, state: "gone", page: 1001 })).toEqual({});
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

test("the last hours are whole quarters of an hour", () => {
  expect(lastHours(6, Date.parse("2026-11-23T09:21:13Z"))).toEqual({
    from: "2026-11-23T03:15:00.000Z",
    to: "2026-11-23T09:15:00.000Z",
  });
});

test("the content of a command has no ids and times of its message", () => {
  const payload = { messageId: "m", siteId: "s", issuedAt: "t", powerKw: -5, mode: "CHARGE", limits: { a: null } };
  expect(contentOf({ payload } as unknown as LogEntry)).toEqual([
    ["powerKw", "-5"],
    ["mode", "CHARGE"],
    ["limits", '{"a":null}'],
  ]);
});
