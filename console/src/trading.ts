import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { apiOf, dataOf, given } from "./api/client";
import type { components } from "./api/schema";
import type { Columns, Range } from "./plants";
import type { SiteSearch, SitesSearch } from "./searches/trading";

export type Site = components["schemas"]["SiteOverview"];
export type SiteConfiguration = components["schemas"]["SiteConfiguration"];
export type TradingConfig = components["schemas"]["TradingConfig"];
export type LogEntry = components["schemas"]["LogEntry"];
export type Adherence = components["schemas"]["Adherence"];

const PAGE = 50;
/** Members of every command that the list shows in columns of their own, or that identify it. */
const HEADING = ["messageId", "correlationId", "siteId", "issuedAt", "expiresAt"];

/** The end of a routing key that names a device, in place of the message. */
const DEVICE = /\.command\.device\.(?<deviceId>.+)$/;

/** The ESM of an organisation, and whether trading is enabled. */
export function tradingQuery(organizationId: string) {
  return queryOptions({
    queryKey: [organizationId, "trading"],
    queryFn: ({ signal }) => dataOf(apiOf(organizationId).GET("/api/v1/trading/config", { signal })),
    refetchInterval: 60_000,
  });
}

/** A page of the sites that match. */
export function sitesQuery(organizationId: string, { q, state, page }: SitesSearch) {
  const query = given({ q, ...(state && { [state]: true }), page: page ?? 1, limit: PAGE });
  return queryOptions({
    queryKey: [organizationId, "sites", query],
    queryFn: ({ signal }) => dataOf(apiOf(organizationId).GET("/api/v1/vcp/sites", { params: { query }, signal })),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
}

/** What partners have set at a site. */
export function siteQuery(organizationId: string, siteId: string) {
  return queryOptions({
    queryKey: [organizationId, "site", siteId],
    queryFn: ({ signal }) =>
      dataOf(apiOf(organizationId).GET("/api/v1/vcp/sites/{siteId}/config", { params: { path: { siteId } }, signal })),
    refetchInterval: 15_000,
  });
}

/** The schedule and the plan of a site at a time; at present without one. */
export function pastQuery(organizationId: string, siteId: string, at: string | undefined) {
  return queryOptions({
    queryKey: [organizationId, "site", siteId, "past", at],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/vcp/sites/{siteId}/past", {
          params: { path: { siteId }, query: given({ at }) },
          signal,
        }),
      ),
    ...(at === undefined && { refetchInterval: 15_000 }),
  });
}

/** Ordered and measured power of a site by quarters of an hour. */
export function adherenceQuery(organizationId: string, siteId: string, range: Range) {
  return queryOptions({
    queryKey: [organizationId, "site", siteId, "adherence", range],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/vcp/sites/{siteId}/adherence", {
          params: { path: { siteId }, query: range },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    // The plant's readings of the newest quarter may arrive after its end.
    refetchInterval: 60_000,
  });
}

/** A page of the partner commands about a site, also refused ones, newest first. */
export function commandLogQuery(organizationId: string, id: string, { type, page }: SiteSearch) {
  const query = given({ commandType: type, page: page ?? 1, limit: PAGE });
  return queryOptions({
    queryKey: [organizationId, "site", id, "log", query],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/trading/plants/{id}/command-log", {
          params: { path: { id }, query },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
}

/** Return the last hours at a time, as whole quarters of an hour. */
export function lastHours(hours: number, now: number): Range {
  const quarter = 900_000;
  const to = Math.floor(now / quarter) * quarter;
  return { from: new Date(to - hours * 3_600_000).toISOString(), to: new Date(to).toISOString() };
}

/** Return what a partner requested, without what identifies the message. */
export function contentOf({ payload, routingKey }: LogEntry): [string, string][] {
  return Object.entries({ ...DEVICE.exec(routingKey)?.groups, ...payload })
    .filter(([name]) => !HEADING.includes(name))
    .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]);
}

/** Return ordered and measured power as columns of a chart. */
export function columnsOf({ siteId, quarters }: Adherence, ordered: string, measured: string): Columns {
  const column = (metric: string, values: (number | null)[]) => ({
    metric,
    unit: "kW",
    average: values,
    min: values,
    max: values,
  });
  return {
    plantId: siteId,
    bucket: "15 minutes",
    times: quarters.map(({ time }) => time),
    columns: [
      column(
        ordered,
        quarters.map(({ orderedKw }) => orderedKw),
      ),
      column(
        measured,
        quarters.map(({ measuredKw }) => measuredKw),
      ),
    ],
  };
}
