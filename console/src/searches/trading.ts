import type { components } from "../api/schema";
import { type ListSearch, listSearch } from "./list";
import { numberOf, pageOf, timeOf } from "./values";

export type CommandType = components["schemas"]["CommandType"];

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
export const HOURS = [6, 24, 48] as const;

/** What the URL says about the list of sites. */
export interface SitesSearch extends ListSearch {
  state?: (typeof STATES)[number] | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function sitesSearch({ state, ...list }: Record<string, unknown>): SitesSearch {
  return { ...listSearch(list), state: STATES.find((one) => one === state) };
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

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function siteSearch({ at, hours, type, page }: Record<string, unknown>): SiteSearch {
  return {
    at: timeOf(at),
    hours: HOURS.find((one) => one === numberOf(hours)),
    type: COMMAND_TYPES.find((one) => one === type),
    page: pageOf(page),
  };
}
