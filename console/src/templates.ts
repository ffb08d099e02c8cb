import { queryOptions } from "@tanstack/react-query";
import { api, dataOf } from "./api/client";
import type { components } from "./api/schema";
import type { DeviceTemplate } from "./devices";

export type Signal = components["schemas"]["Signal"];

/** The templates of plants and of sub-devices, newest first. */
export const templatesOfAllLevelsQuery = queryOptions({
  queryKey: ["templates", "ALL"],
  queryFn: ({ signal }) => dataOf(api.GET("/api/v1/device-templates", { signal })),
  staleTime: 60_000,
});

/** Return the signals of a template. The service checked them when it stored them. */
export function signalsOf(template: DeviceTemplate): Signal[] {
  return template.signals as unknown as Signal[];
}

/** Return the keys of the signals of templates, in alphabetical order. */
export function keysOf(templates: readonly DeviceTemplate[]): string[] {
  return [...new Set(templates.flatMap(signalsOf).map(({ key }) => key))].sort();
}
