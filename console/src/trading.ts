import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { apiOf, dataOf, given } from "./api/client";
import type { components } from "./api/schema";
import type { Columns, Range } from "./plants";

export type Site = components["schemas"]["SiteOverview"];
export type SiteConfiguration = components["schemas"]["SiteConfiguration"];
export type TradingConfig = components["schemas"]["TradingConfig"];
export type LogEntry = components["schemas"]["LogEntry"];
export type CommandType = components["schemas"]["CommandType"];
export type Adherence = components["schemas"]["Adherence"];

/** What sites may be filtered by: whether an override or a schedule is in force, or the fallback is active. */
export const STATES = ["override", "fallback", "schedule"] as const;
export const COMMAND_TYPES: readonly CommandType[] = [
  "SITE_SETPOINT",
  "SCHEDULE",
  "MODE_CHANGE",
  "EMERGENCY",
  "CONFIG",
  "DEVICE_COMMAND",
];

const PAGE = 50;
const MOST_PAGES = 1000;
/** Members of every command that the list shows in columns of their own, or that identify it. */
const HEADING = ["messageId", "correlationId", "siteId", "issuedAt", "expiresAt"];

/** What the URL says about the list of sites. */
export interface SitesSearch {
  q?: string | undefined;
  state?: (typeof STATES)[number] | undefined;
  /** From 1. */
  page?: number | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function sitesSearch({ q, state, page }: Record<string, unknown>): SitesSearch {
  const text = typeof q === "string" ? q.trim().slice(0, 100) : "";
  return {
    q: text === "" ? undefined : text,
    state: STATES.find((one) => one === state),
    page: pageOf(page),
  };
}

/** What the URL says about a site: the time of the schedule, the hours of the adherence, and which commands are listed. */
export interface SiteSearch {
  /** Time of the schedule, in ISO 8601; otherwise the present. */
  at?: string | undefined;
  hours?: (typeof HOURS)[number] | undefined;
  type?: CommandType | undefined;
  /** From 1. */
  page?: number | undefined;
}

export const HOURS = [6, 24, 48] as const;

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function siteSearch({ at, hours, type, page }: Record<string, unknown>): SiteSearch {
  const time = typeof at === "string" ? Date.parse(at) : Number.NaN;
  return {
    at: Number.isNaN(time) ? undefined : new Date(time).toISOString(),
    hours: HOURS.find((one) => one === Number(hours)),
    type: COMMAND_TYPES.find((one) => one === type),
    page: pageOf(page),
  };
}

function pageOf(page: unknown): number | undefined {
  const number = Number(page);
  return Number.isInteger(number) && number > 1 && number <= MOST_PAGES ? number : undefined;
}

/** The ESM of an organisation, and whether trading is enabled. */
export function tradingQuery(organizationId: string) {
  return queryOptions({
    queryKey: [organizationId, "trading"],
    queryFn: ({ signal }) => dataOf(apiOf(organizationId).GET("/api/v1/trading/config", { signal })),
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
export function contentOf({ payload }: LogEntry): [string, string][] {
  return Object.entries(payload)
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
