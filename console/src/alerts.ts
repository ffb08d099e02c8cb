import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { apiOf, dataOf, given } from "./api/client";
import type { components } from "./api/schema";
import type { Range } from "./plants";
import type { AlertSearch, AlertStatus } from "./searches/alerts";

export type Alert = components["schemas"]["Alert"];

/** What the list shows without a choice: what is not resolved. */
export const OPEN: readonly AlertStatus[] = ["ACTIVE", "ACKNOWLEDGED"];
const PAGE = 50;
const MOST_MARKS = 100;

/** A page of the alerts of a plant, or of all plants. */
export function alertsQuery(organizationId: string, search: AlertSearch, plantId?: string) {
  const query = { ...filtersOf(search, plantId), page: search.page ?? 1, limit: PAGE };
  return queryOptions({
    queryKey: [organizationId, "alerts", query],
    queryFn: ({ signal }) => dataOf(apiOf(organizationId).GET("/api/v1/alerts", { params: { query }, signal })),
    placeholderData: keepPreviousData,
    // The stream is faster; without it, this is how old the list may be.
    refetchInterval: 30_000,
  });
}

/** Return the filters of the alerts of a plant, or of all plants. */
export function filtersOf({ status, severity, from, to }: AlertSearch, plantId?: string) {
  return { status: [...(status ?? OPEN)], severity: severity ?? [], ...given({ from, to, plantId }) };
}

/** The alerts that a plant raised in a range, the newest hundred. */
export function alertsInRangeQuery(organizationId: string, plantId: string, range: Range) {
  const query = { plantId, ...range, limit: MOST_MARKS };
  return queryOptions({
    queryKey: [organizationId, "alerts", query],
    queryFn: ({ signal }) => dataOf(apiOf(organizationId).GET("/api/v1/alerts", { params: { query }, signal })),
    placeholderData: keepPreviousData,
  });
}

export function alertQuery(organizationId: string, id: string) {
  return queryOptions({
    queryKey: [organizationId, "alerts", id],
    queryFn: ({ signal }) =>
      dataOf(apiOf(organizationId).GET("/api/v1/alerts/{id}", { params: { path: { id } }, signal })),
    refetchInterval: 60_000,
  });
}
