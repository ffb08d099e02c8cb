import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { apiOf, dataOf, given } from "./api/client";
import type { components } from "./api/schema";
import type { FleetSearch } from "./searches/fleet";

export type FleetPlant = components["schemas"]["FleetPlant"];
export type FleetSummary = components["schemas"]["FleetSummary"];

const PAGE = 200;
const MOST_REFETCHED = 3;

/** The totals of the fleet. */
export function summaryQuery(organizationId: string) {
  return queryOptions({
    queryKey: [organizationId, "fleet", "summary"],
    queryFn: ({ signal }) => dataOf(apiOf(organizationId).GET("/api/v1/fleet/summary", { signal })),
    // The stream is faster; without it, this is how old the totals may be.
    refetchInterval: 15_000,
  });
}

/** The row of one plant in the list of the fleet; null without such a plant. */
export function fleetPlantQuery(organizationId: string, plantId: string) {
  return queryOptions({
    queryKey: [organizationId, "fleet", "plant", plantId],
    queryFn: async ({ signal }): Promise<FleetPlant | null> => {
      const params = { query: { plantId, limit: 1 } };
      const page = await dataOf(apiOf(organizationId).GET("/api/v1/fleet/plants", { params, signal }));
      return page.data[0] ?? null;
    },
    refetchInterval: 15_000,
  });
}

/** The number of plants of which a message was refused in the last 24 hours. */
export function refusedPlantsQuery(organizationId: string) {
  return queryOptions({
    queryKey: [organizationId, "fleet", "refused"],
    queryFn: async ({ signal }) => {
      const params = { query: { refused: true, limit: 1 } };
      const page = await dataOf(apiOf(organizationId).GET("/api/v1/fleet/plants", { params, signal }));
      return page.meta.total;
    },
    refetchInterval: 30_000,
  });
}

/** The plants that match, page by page. */
export function plantsQuery(organizationId: string, { q, status, alert, refused, sort, order }: FleetSearch) {
  const search = { q, status, alert, refused, sort, order };
  return infiniteQueryOptions({
    queryKey: [organizationId, "fleet", "plants", search],
    queryFn: ({ signal, pageParam }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/fleet/plants", {
          params: { query: given({ ...search, limit: PAGE, cursor: pageParam ?? undefined }) },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.meta.nextCursor,
    placeholderData: keepPreviousData,
    // Each refetch asks for every loaded page again.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) <= MOST_REFETCHED ? 30_000 : false),
  });
}
