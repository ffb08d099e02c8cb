import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, apiOf, dataOf, given } from "./api/client";
import type { components } from "./api/schema";
import { fieldText } from "./form-data";
import type { Range } from "./plants";
import type { ListSearch } from "./searches/list";

export type SubDevice = components["schemas"]["SubDevice"];
export type DeviceTemplate = components["schemas"]["DeviceTemplate"];
export type DeviceType = components["schemas"]["DeviceType"];
export type Parameter = components["schemas"]["ActionParameter"];
export type Action = components["schemas"]["Action"];
export type SubDeviceChanges = components["schemas"]["SubDevicePatch"];
export type Command = components["schemas"]["ListedCommand"];

export const DEVICE_TYPES: readonly DeviceType[] = ["BATTERY", "INVERTER", "METER", "CABINET"];

/** The most that the service returns on a page. */
const MOST = 100;
const PAGE = 50;

/** A page of the sub-devices of a plant, newest first. */
export function subDevicesQuery(organizationId: string, plantId: string, { q, page }: ListSearch = {}) {
  const query = given({ search: q, page: page ?? 1, limit: PAGE });
  return queryOptions({
    queryKey: [organizationId, "sub-devices", plantId, query],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/plants/{plantId}/sub-devices", {
          params: { path: { plantId }, query },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
}

/** All sub-devices of a plant, newest first. */
export function allSubDevicesQuery(organizationId: string, plantId: string) {
  return queryOptions({
    queryKey: [organizationId, "sub-devices", plantId, "all"],
    queryFn: async ({ signal }) => {
      const found: SubDevice[] = [];
      for (let page = 1, pages = 1; page <= pages; page++) {
        const params = { path: { plantId }, query: { page, limit: MOST } };
        const { data, meta } = await dataOf(
          apiOf(organizationId).GET("/api/v1/plants/{plantId}/sub-devices", { params, signal }),
        );
        found.push(...data);
        pages = meta.totalPages;
      }
      return found;
    },
    // A plant may have thousands. Those that are registered in this tab are read at once.
    staleTime: 60_000,
  });
}

/** The templates of sub-devices: which signals they have and which actions they accept. */
export const templatesQuery = queryOptions({
  queryKey: ["templates", "SUB_DEVICE"],
  queryFn: ({ signal }) =>
    dataOf(api.GET("/api/v1/device-templates", { params: { query: { level: "SUB_DEVICE" } }, signal })),
  staleTime: 60_000,
});

/** The newest commands to the sub-devices of a plant. */
export function commandsQuery(organizationId: string, plantId: string) {
  const query = { plantId, type: ["DEVICE_COMMAND" as const], limit: 20 };
  return queryOptions({
    queryKey: [organizationId, "commands", plantId, query],
    queryFn: ({ signal }) => dataOf(apiOf(organizationId).GET("/api/v1/commands", { params: { query }, signal })),
  });
}

/** All commands to a plant and its devices, newest first, page by page. */
export function allCommandsQuery(organizationId: string, plantId: string) {
  return infiniteQueryOptions({
    queryKey: [organizationId, "commands", plantId, "all"],
    queryFn: ({ signal, pageParam }) => {
      const query = given({ plantId, limit: PAGE, cursor: pageParam ?? undefined });
      return dataOf(apiOf(organizationId).GET("/api/v1/commands", { params: { query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ meta }) => meta.nextCursor,
  });
}

/** Return what a command requests, and of which device. */
export function commandName({ action, type, externalId }: Command, types: Record<Command["type"], string>): string {
  return [externalId, action ?? types[type]].filter((part) => part !== null).join(": ");
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
  for (const { name, type, required = true } of parameters) {
    const text = form.get(name);
    if (type === "boolean" && required) values[name] = text !== null;
    else if (text !== null && text !== "") values[name] = typed(type, String(text));
  }
  return values;
}

function typed(type: Parameter["type"], text: string): string | number | boolean {
  if (type === "boolean") return text === "true";
  return type === "number" || type === "integer" ? Number(text) : text;
}

/** Return the fields of a form that differ from the sub-device. A template can be changed, but not taken away. */
export function subDeviceChanges(device: SubDevice, form: FormData): SubDeviceChanges {
  const [name, serialNumber, templateId] = ["name", "serialNumber", "templateId"].map((field) =>
    fieldText(form, field),
  );
  return {
    ...(name !== device.name && { name }),
    ...(serialNumber !== (device.serialNumber ?? "") && { serialNumber }),
    ...(templateId !== (device.templateId ?? "") && { templateId }),
  };
}
