import { expect, test } from "vitest";
import { contentOf, type LogEntry, lastHours } from "./trading";

test("the last hours are whole quarters of an hour", () => {
  expect(lastHours(6, Date.parse("2026-11-23T09:21:13Z"))).toEqual({
    from: "2026-11-23T03:15:00.000Z",
    to: "2026-11-23T09:15:00.000Z",
  });
});

test("the content of a command has no ids and times of its message", () => {
  const payload = { messageId: "m", siteId: "s", issuedAt: "t", powerKw: -5, mode: "CHARGE", limits: { a: null } };
  expect(contentOf({ payload, routingKey: "acme.command.mode" } as unknown as LogEntry)).toEqual([
    ["powerKw", "-5"],
    ["mode", "CHARGE"],
    ["limits", '{"a":null}'],
  ]);
});

test("the content of a command to a device names the device, also if its routing key alone does", () => {
  const entry = { payload: { action: "stop" }, routingKey: "acme.command.device.BAT1" };
  expect(contentOf(entry as unknown as LogEntry)).toEqual([
    ["deviceId", "BAT1"],
    ["action", "stop"],
  ]);
  const named = { payload: { deviceId: "BAT2" }, routingKey: "acme.command.device" };
  expect(contentOf(named as unknown as LogEntry)).toEqual([["deviceId", "BAT2"]]);
});
