import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, apiOf, dataOf } from "./api/client";
import type { components } from "./api/schema";
import type { DeviceTemplate } from "./devices";
import type { Signal } from "./signals";

export type TemplateLevel = components["schemas"]["TemplateLevel"];

export const LEVELS: readonly TemplateLevel[] = ["SUB_DEVICE", "PLANT"];

/** The templates of plants and of sub-devices, newest first. */
export const templatesOfAllLevelsQuery = queryOptions({
  queryKey: ["templates", "ALL"],
  queryFn: ({ signal }) => dataOf(api.GET("/api/v1/device-templates", { signal })),
  staleTime: 60_000,
});

export function templateQuery(id: string) {
  return queryOptions({
    queryKey: ["templates", id],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/device-templates/{id}", { params: { path: { id } }, signal })),
  });
}

/** How many plants and sub-devices of the organisation use a template, and these plants, page by page. */
export function usageQuery(organizationId: string, templateId: string, limit = 100) {
  return infiniteQueryOptions({
    queryKey: [organizationId, "template-usage", templateId, limit],
    queryFn: ({ signal, pageParam }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/device-templates/{templateId}/usage", {
          params: { path: { templateId }, query: { limit, ...(pageParam !== null && { cursor: pageParam }) } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: ({ plants }) => plants.meta.nextCursor,
  });
}

/** Return the signals of a template. The service checked them when it stored them. */
export function signalsOf(template: DeviceTemplate): Signal[] {
  return template.signals as unknown as Signal[];
}
