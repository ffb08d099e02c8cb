import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { apiOf, dataOf, given } from "./api/client";
import type { components } from "./api/schema";
import { untilReadAgain } from "./reading";
import type { FleetSearch } from "./searches/fleet";

export type FleetPlant = components["schemas"]["FleetPlant"];
type FleetPlantPage = components["schemas"]["FleetPlantPage"];
export type FleetSummary = components["schemas"]["FleetSummary"];

/** Filters of the list, without its order. */
export type FleetFilters = Omit<FleetSearch, "sort" | "order" | "view" | "at">;

/** How many of how many plants are read. */
export interface Progress {
  read: number;
  total: number;
}

const PAGE = 200;
/** The most plants that the service returns at once. */
const MOST = 500;
/** Milliseconds after which a list is read again, and for each of its pages if it has many: all of them are read. */
const READ_AGAIN_AFTER = 30_000;
const READ_AGAIN_AFTER_PAGE = 10_000;

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
    refetchInterval: (query) => untilReadAgain(query, 15_000),
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
export function plantsQuery(organizationId: string, { sort, order, ...filters }: FleetSearch) {
  const search = { ...filtersOf(filters), sort, order };
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
    refetchInterval: (query) => {
      const pages = query.state.data?.pages.length ?? 0;
      return untilReadAgain(query, Math.max(READ_AGAIN_AFTER, pages * READ_AGAIN_AFTER_PAGE));
    },
  });
}

/**
 * Return the plants of the pages that are loaded, each once. One whose value changed between two requests may be on both pages;
 * the later one has the newer values.
 */
export function plantsOf(pages: readonly FleetPlantPage[] = []): FleetPlant[] {
  return [...new Map(pages.flatMap(({ data }) => data).map((plant) => [plant.id, plant])).values()];
}

/** Return the filters of the list alone. A link may have members that the service does not understand. */
export function filtersOf({ q, status, alert, ...search }: FleetSearch): FleetFilters {
  return { q, status, alert, ...rarerFiltersOf(search) };
}

/** Return the filters that seldom are set. */
export function rarerFiltersOf({ lifecycleStatus, groupId, templateId, refused }: FleetSearch): FleetFilters {
  return { lifecycleStatus, groupId, templateId, refused };
}

/**
 * Return all plants that match. They are read in the order of their names, whatever the list is sorted by: in the order of a
 * value, a plant whose value changes meanwhile may be on no page.
 *
 * @param onRead - Called after each page.
 */
export async function allPlants(
  organizationId: string,
  filters: FleetFilters,
  onRead: (progress: Progress) => void,
): Promise<FleetPlant[]> {
  const plants = new Map<string, FleetPlant>();
  let cursor: string | null = null;
  do {
    const query = given({ ...filters, limit: MOST, cursor: cursor ?? undefined });
    const page: FleetPlantPage = await dataOf(apiOf(organizationId).GET("/api/v1/fleet/plants", { params: { query } }));
    for (const plant of page.data) plants.set(plant.id, plant);
    cursor = page.meta.nextCursor;
    onRead({ read: plants.size, total: page.meta.total });
  } while (cursor !== null);
  return [...plants.values()];
}
