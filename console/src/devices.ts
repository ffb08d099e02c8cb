import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, apiOf, dataOf } from "./api/client";
import type { components } from "./api/schema";
import type { Range } from "./plants";

export type SubDevice = components["schemas"]["SubDevice"];
export type DeviceTemplate = components["schemas"]["DeviceTemplate"];
export type DeviceType = components["schemas"]["DeviceType"];
export type Parameter = components["schemas"]["ActionParameter"];
export type Action = components["schemas"]["Action"];
export type PlantCommand = components["schemas"]["PlantCommand"];

export const DEVICE_TYPES: readonly DeviceType[] = ["BATTERY", "INVERTER", "METER", "CABINET"];

/** The most that the service returns on a page. */
const MOST = 100;

/** The sub-devices of a plant, the first hundred by name. */
export function subDevicesQuery(organizationId: string, plantId: string) {
  return queryOptions({
    queryKey: [organizationId, "sub-devices", plantId],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/plants/{plantId}/sub-devices", {
          params: { path: { plantId }, query: { limit: MOST } },
          signal,
        }),
      ),
  });
}

/** The templates of sub-devices: which signals they have and which actions they accept. */
export const templatesQuery = queryOptions({
  queryKey: ["templates", "SUB_DEVICE"],
  queryFn: ({ signal }) =>
    dataOf(api.GET("/api/v1/device-templates", { params: { query: { level: "SUB_DEVICE" } }, signal })),
  staleTime: 60_000,
});

/** The newest commands to a sub-device. */
export function commandsQuery(organizationId: string, plantId: string, externalId: string) {
  return queryOptions({
    queryKey: [organizationId, "commands", plantId, externalId],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/plants/{plantId}/sub-devices/{externalId}/commands", {
          params: { path: { plantId, externalId }, query: { limit: 20 } },
          signal,
        }),
      ),
  });
}

/** The commands that were issued to a plant and its devices in a range, the newest hundred. */
export function commandsInRangeQuery(organizationId: string, plantId: string, range: Range) {
  const query = { plantId, ...range, limit: MOST };
  return queryOptions({
    queryKey: [organizationId, "commands", plantId, query],
    queryFn: ({ signal }) => dataOf(apiOf(organizationId).GET("/api/v1/commands", { params: { query }, signal })),
    placeholderData: keepPreviousData,
  });
}

/** Return the actions of a template. The service checked them when it stored them. */
export function actionsOf(template: DeviceTemplate | undefined): Action[] {
  return (template?.actions ?? []) as unknown as Action[];
}

/** Return the values of a form by the names of the parameters, without the optional ones that were left empty. */
export function valuesOf(parameters: Parameter[], form: FormData): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const { name, type } of parameters) {
    const text = form.get(name);
    if (type === "boolean") values[name] = text !== null;
    else if (text !== null && text !== "") values[name] = type === "number" || type === "integer" ? Number(text) : text;
  }
  return values;
}
