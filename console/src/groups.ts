import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { apiOf, dataOf } from "./api/client";
import type { components } from "./api/schema";

export type CountedGroup = components["schemas"]["CountedPlantGroup"];

const MOST = 100;
const FOUND = 10;

/** The ids in one request: far below the size of a body that the service accepts. */
const MOST_ADDED = 5_000;

/** A page of the groups of an organisation with the numbers of their plants. */
export function groupsQuery(organizationId: string, page = 1) {
  return queryOptions({
    queryKey: [organizationId, "groups", "page", page],
    queryFn: ({ signal }) =>
      dataOf(apiOf(organizationId).GET("/api/v1/plant-groups", { params: { query: { page, limit: MOST } }, signal })),
    placeholderData: keepPreviousData,
  });
}

/** All groups of an organisation, by name. */
export function allGroupsQuery(organizationId: string) {
  return queryOptions({
    queryKey: [organizationId, "groups", "all"],
    queryFn: async ({ signal }) => {
      const groups: CountedGroup[] = [];
      for (let page = 1, last = 1; page <= last; page++) {
        const params = { query: { page, limit: MOST } };
        const { data, meta } = await dataOf(apiOf(organizationId).GET("/api/v1/plant-groups", { params, signal }));
        groups.push(...data);
        last = meta.totalPages;
      }
      return groups.sort((a, b) => a.name.localeCompare(b.name));
    },
  });
}

/** Create a group without plants. */
export function createGroup(organizationId: string, name: string) {
  return dataOf(apiOf(organizationId).POST("/api/v1/plant-groups", { body: { name } }));
}

/** Add any number of plants to a group. After a failure some may be in it; adding these again changes nothing. */
export async function addToGroup(organizationId: string, id: string, plantIds: readonly string[]): Promise<void> {
  const params = { path: { id } };
  for (let at = 0; at < plantIds.length; at += MOST_ADDED) {
    const body = { plantIds: plantIds.slice(at, at + MOST_ADDED) };
    await dataOf(apiOf(organizationId).POST("/api/v1/plant-groups/{id}/plants", { params, body }));
  }
}

export function groupQuery(organizationId: string, id: string) {
  return queryOptions({
    queryKey: [organizationId, "groups", id],
    queryFn: ({ signal }) =>
      dataOf(apiOf(organizationId).GET("/api/v1/plant-groups/{id}", { params: { path: { id } }, signal })),
  });
}

/** The members of a group, page by page. */
export function membersOfGroupQuery(organizationId: string, id: string) {
  return infiniteQueryOptions({
    queryKey: [organizationId, "groups", id, "members"],
    queryFn: ({ signal, pageParam }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/plant-groups/{id}/members", {
          params: { path: { id }, query: { limit: MOST, ...(pageParam !== null && { cursor: pageParam }) } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: ({ meta }) => meta.nextCursor,
    // The members are shown with their status and when they were seen.
    refetchInterval: 30_000,
  });
}

/** The first plants with a text in their name or serial number; none for no text. */
export function foundPlantsQuery(organizationId: string, q: string) {
  return queryOptions({
    queryKey: [organizationId, "found-plants", q],
    queryFn: ({ signal }) =>
      dataOf(apiOf(organizationId).GET("/api/v1/fleet/plants", { params: { query: { q, limit: FOUND } }, signal })),
    enabled: q !== "",
  });
}
