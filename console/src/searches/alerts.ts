import type { components } from "../api/schema";
import { SEVERITIES, type Severity } from "../severities";
import { pageOf, timesOf, valuesOf } from "./values";

export type AlertStatus = components["schemas"]["AlertStatus"];

export const STATUSES: readonly AlertStatus[] = ["ACTIVE", "ACKNOWLEDGED", "RESOLVED"];

/** What the URL says about the list. */
export interface AlertSearch {
  status?: AlertStatus[] | undefined;
  severity?: Severity[] | undefined;
  /** When the alerts were raised; `to` is exclusive. */
  from?: string | undefined;
  to?: string | undefined;
  /** From 1. */
  page?: number | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function alertSearch({ status, severity, page, ...times }: Record<string, unknown>): AlertSearch {
  return {
    status: valuesOf(STATUSES, status),
    severity: valuesOf(SEVERITIES, severity),
    ...timesOf(times),
    page: pageOf(page),
  };
}
