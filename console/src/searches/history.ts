import type { components } from "../api/schema";
import type { Range } from "../plants";
import { timeOf, zoneOf } from "./values";

export const LAST = ["1h", "24h", "7d", "30d"] as const;
export type Last = (typeof LAST)[number];

const HOURS: Record<Last, number> = { "1h": 1, "24h": 24, "7d": 168, "30d": 720 };

export type Bucket = components["schemas"]["ColumnBucket"];

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Milliseconds of each. */
export const WIDTHS: Record<Bucket, number> = {
  "10 seconds": 10 * SECOND,
  "30 seconds": 30 * SECOND,
  "1 minute": MINUTE,
  "2 minutes": 2 * MINUTE,
  "5 minutes": 5 * MINUTE,
  "10 minutes": 10 * MINUTE,
  "15 minutes": 15 * MINUTE,
  "30 minutes": 30 * MINUTE,
  "1 hour": HOUR,
  "2 hours": 2 * HOUR,
  "3 hours": 3 * HOUR,
  "6 hours": 6 * HOUR,
  "12 hours": 12 * HOUR,
  "1 day": DAY,
  "7 days": 7 * DAY,
  "30 days": 30 * DAY,
};
const BUCKETS = Object.keys(WIDTHS) as Bucket[];

/** The service returns at most this many values. */
const MOST_VALUES = 40_000;

/** What the URL says: the last hours, or a fixed range, and metrics and a bucket if the user chose some. */
export interface HistorySearch {
  last?: Last | undefined;
  from?: string | undefined;
  to?: string | undefined;
  metrics?: string[] | undefined;
  bucket?: Bucket | undefined;
  /** In which times are shown; undefined: that of the plant. */
  timeZone?: string | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function historySearch(search: Record<string, unknown>): HistorySearch {
  const metrics = Array.isArray(search.metrics)
    ? search.metrics.filter((one): one is string => typeof one === "string").slice(0, 6)
    : undefined;
  const chosen = { metrics, bucket: BUCKETS.find((one) => one === search.bucket), timeZone: zoneOf(search.timeZone) };
  const [from, to] = [timeOf(search.from), timeOf(search.to)];
  if (from !== undefined && to !== undefined && from < to) return { from, to, ...chosen };
  // Members that are left out would stay as the link has them.
  return { last: LAST.find((one) => one === search.last) ?? "24h", from: undefined, to: undefined, ...chosen };
}

/** Return what can be chosen: what a plant reports, and chosen metrics that it does not, such as those of an old link. */
export function offeredMetrics<T extends { metric: string }>(reported: readonly T[], chosen: readonly string[]) {
  const missing = chosen.filter((one) => reported.every(({ metric }) => metric !== one));
  return [...reported, ...missing.map((metric) => ({ metric, unit: null }))];
}

/** Return the range of a search at a time. The last hours end with the minute, so that an answer can be reused within it. */
export function rangeOf(search: HistorySearch, now: number): Range {
  if (search.from !== undefined && search.to !== undefined) return { from: search.from, to: search.to };
  const to = Math.ceil(now / MINUTE) * MINUTE;
  const from = to - HOURS[search.last ?? "24h"] * HOUR;
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}

/** Return the buckets of which at least two, and not more than the service returns, cover a range. */
export function fittingBuckets({ from, to }: Range, metrics: number): Bucket[] {
  const duration = Date.parse(to) - Date.parse(from);
  return BUCKETS.filter((bucket) => {
    const count = duration / WIDTHS[bucket];
    // Both ends of the range may cut a bucket.
    return count >= 2 && (count + 2) * metrics <= MOST_VALUES;
  });
}
