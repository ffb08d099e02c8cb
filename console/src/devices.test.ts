import { QueryClient } from "@tanstack/react-query";
import { afterEach, expect, test, vi } from "vitest";
import { allSubDevicesQuery, type SubDevice, subDeviceChanges, valuesOf } from "./devices";

/** Browsers complete an address with that of the page. */
class RequestOfPage extends Request {
  constructor(input: string | Request, init?: RequestInit) {
    super(typeof input === "string" ? new URL(input, "http://console") : input, init);
  }
}

afterEach(() => vi.unstubAllGlobals());

test("all devices of a plant are read, page by page", async () => {
  vi.stubGlobal("localStorage", { getItem: () => null });
  vi.stubGlobal("Request", RequestOfPage);
  vi.stubGlobal("fetch", async (request: Request) => {
    const page = new URL(request.url).searchParams.get("page");
    return Response.json({ data: [{ externalId: `D${page}` }], meta: { totalPages: 3 } });
  });
  const found = await new QueryClient().fetchQuery(allSubDevicesQuery("o", "p"));
  expect(found.map(({ externalId }) => externalId)).toEqual(["D1", "D2", "D3"]);
});

function form(values: Record<string, string>): FormData {
  const made = new FormData();
  for (const [name, value] of Object.entries(values)) made.set(name, value);
  return made;
}

test("values have the types of their parameters", () => {
  const parameters = [
    { name: "power_kw", type: "number", required: true },
    { name: "steps", type: "integer", required: true },
    { name: "mode", type: "enum", required: true },
    { name: "force", type: "boolean", required: true },
  ] as const;
  const values = valuesOf([...parameters], form({ power_kw: "-2.5", steps: "3", mode: "eco", force: "on" }));
  expect(values).toEqual({ power_kw: -2.5, steps: 3, mode: "eco", force: true });
});

test("an empty optional field is not sent, a box without a tick is false", () => {
  const parameters = [
    { name: "note", type: "string", required: false },
    { name: "limit", type: "number", required: false },
    { name: "force", type: "boolean", required: true },
    { name: "quiet", type: "boolean", required: false },
  ] as const;
  expect(valuesOf([...parameters], form({ note: "", limit: "", quiet: "" }))).toEqual({ force: false });
});

test("an optional parameter that is true or false has a choice of three", () => {
  const parameters = [{ name: "quiet", type: "boolean", required: false }] as const;
  expect(valuesOf([...parameters], form({ quiet: "true" }))).toEqual({ quiet: true });
  expect(valuesOf([...parameters], form({ quiet: "false" }))).toEqual({ quiet: false });
});

test("only what differs from a device is changed, and a template can be given once", () => {
  const device = { name: "Battery", serialNumber: null, templateId: null } as SubDevice;
  const shown = { name: "Battery", serialNumber: "", templateId: "" };
  expect(subDeviceChanges(device, form(shown))).toEqual({});
  expect(subDeviceChanges(device, form({ ...shown, serialNumber: "B-1", templateId: "t" }))).toEqual({
    serialNumber: "B-1",
    templateId: "t",
  });
  expect(subDeviceChanges({ ...device, serialNumber: "B-1" }, form(shown))).toEqual({ serialNumber: "" });
});
