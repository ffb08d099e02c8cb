import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { SEVERITIES } from "./alerts";
import { apiOf, dataOf, given } from "./api/client";
import type { components } from "./api/schema";

export type FleetPlant = components["schemas"]["FleetPlant"];
export type FleetSummary = components["schemas"]["FleetSummary"];
export type Sort = components["schemas"]["FleetSort"];
export type Status = components["schemas"]["PlantStatus"];
export type AlertCondition = components["schemas"]["AlertCondition"];
export type Severity = components["schemas"]["Severity"];

const PAGE = 200;
const MOST_REFETCHED = 3;
const STATUSES: readonly Status[] = ["ONLINE", "OFFLINE", "UNKNOWN"];
export const CONDITIONS: readonly AlertCondition[] = ["ANY", ...SEVERITIES, "NONE"];
const SORTS: readonly Sort[] = [
  "name",
  "serialNumber",
  "status",
  "lastSeenAt",
  "pv",
  "battery",
  "grid",
  "load",
  "soc",
  "energyToday",
  "alert",
];

/** What the URL says about the list: filters and order, and whether it is shown as a map. */
export interface FleetSearch {
  q?: string | undefined;
  status?: Status[] | undefined;
  alert?: AlertCondition | undefined;
  sort?: Sort | undefined;
  order?: "asc" | "desc" | undefined;
  view?: "map" | undefined;
  /** The part of the world that the map shows, as `textOfView` writes it; otherwise all plants. */
  at?: string | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function fleetSearch(search: Record<string, unknown>): FleetSearch {
  const q = typeof search.q === "string" ? search.q.trim().slice(0, 100) : "";
  const status = Array.isArray(search.status)
    ? STATUSES.filter((one) => (search.status as unknown[]).includes(one))
    : [];
  return {
    q: q === "" ? undefined : q,
    status: status.length === 0 ? undefined : status,
    alert: CONDITIONS.find((one) => one === search.alert),
    sort: SORTS.find((one) => one === search.sort),
    order: search.order === "desc" ? "desc" : undefined,
    view: search.view === "map" ? "map" : undefined,
    at: typeof search.at === "string" ? search.at.slice(0, 100) : undefined,
  };
}

/** The totals of the fleet. */
export function summaryQuery(organizationId: string) {
  return queryOptions({
    queryKey: [organizationId, "fleet", "summary"],
    queryFn: ({ signal }) => dataOf(apiOf(organizationId).GET("/api/v1/fleet/summary", { signal })),
    // The stream is faster; without it, this is how old the totals may be.
    refetchInterval: 15_000,
  });
}

/** The plants that match, page by page. */
export function plantsQuery(organizationId: string, { q, status, alert, sort, order }: FleetSearch) {
  const search = { q, status, alert, sort, order };
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
