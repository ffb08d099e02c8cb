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
export function alertsQuery(
  organizationId: string,
  { status, severity, from, to, page }: AlertSearch,
  plantId?: string,
) {
  const filters = { status: [...(status ?? OPEN)], severity: severity ?? [], page: page ?? 1, limit: PAGE };
  const query = { ...filters, ...given({ from, to, plantId }) };
  return queryOptions({
    queryKey: [organizationId, "alerts", query],
    queryFn: ({ signal }) => dataOf(apiOf(organizationId).GET("/api/v1/alerts", { params: { query }, signal })),
    placeholderData: keepPreviousData,
    // The stream is faster; without it, this is how old the list may be.
    refetchInterval: 30_000,
  });
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
  });
}

/** Acknowledge or resolve several alerts. The result says for each whether it changed. */
export function changeAlerts(organizationId: string, change: "acknowledge" | "resolve", alertIds: string[]) {
  return dataOf(apiOf(organizationId).POST(`/api/v1/alerts/${change}`, { body: { alertIds } }));
}
