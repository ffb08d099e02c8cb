import type { Range } from "../plants";
import { timeOf } from "./values";

export const LAST = ["1h", "24h", "7d", "30d"] as const;
export type Last = (typeof LAST)[number];

const HOURS: Record<Last, number> = { "1h": 1, "24h": 24, "7d": 168, "30d": 720 };
const HOUR = 3_600_000;
const MINUTE = 60_000;

/** What the URL says: the last hours, or a fixed range, and metrics if the user chose some. */
export interface HistorySearch {
  last?: Last | undefined;
  from?: string | undefined;
  to?: string | undefined;
  metrics?: string[] | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function historySearch(search: Record<string, unknown>): HistorySearch {
  const metrics = Array.isArray(search.metrics)
    ? search.metrics.filter((one): one is string => typeof one === "string").slice(0, 6)
    : undefined;
  const [from, to] = [timeOf(search.from), timeOf(search.to)];
  if (from !== undefined && to !== undefined && from < to) return { from, to, metrics };
  // Members that are left out would stay as the link has them.
  return { last: LAST.find((one) => one === search.last) ?? "24h", from: undefined, to: undefined, metrics };
}

/** Return the range of a search at a time. The last hours end with the minute, so that an answer can be reused within it. */
export function rangeOf(search: HistorySearch, now: number): Range {
  if (search.from !== undefined && search.to !== undefined) return { from: search.from, to: search.to };
  const to = Math.ceil(now / MINUTE) * MINUTE;
  const from = to - HOURS[search.last ?? "24h"] * HOUR;
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}
