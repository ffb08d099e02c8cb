/** Days and months in a time zone. Months are numbered from 1. */

export type Period = "day" | "month" | "year";

/** A calendar date without a time. */
export interface CalendarDate {
  year: number;
  month: number;
  day: number;
}

const MINUTE = 60_000;

/** Return the date that people in a zone read at a time. */
export function dateIn(timeZone: string, time: number): CalendarDate {
  const { year, month, day } = partsIn(timeZone, time);
  return { year, month, day };
}

/**
 * Return the beginning of a day in a zone, in epoch milliseconds.
 *
 * Dates out of range continue in the next or previous month, as `new Date()` does. In a zone whose clocks skip midnight, the day
 * begins when they show its first time.
 */
export function startOfDay(timeZone: string, { year, month, day }: CalendarDate): number {
  return timeOf(timeZone, Date.UTC(year, month - 1, day));
}

/**
 * Return the time of a text as `2026-11-23T09:15` in a zone, in epoch milliseconds; undefined if it is none.
 *
 * @param former The time that the field had before, in ISO 8601. Returned if its text is the same: when summer time ends, clocks
 *   show an hour twice.
 */
export function parseLocal(timeZone: string, text: string, former = ""): number | undefined {
  const before = Date.parse(former);
  if (!Number.isNaN(before) && localText(timeZone, before) === text) return before;
  const local = /^\d{4}-\d\d-\d\dT\d\d:\d\d$/.test(text) ? Date.parse(`${text}Z`) : Number.NaN;
  return Number.isNaN(local) ? undefined : timeOf(timeZone, local);
}

/** Return what the clocks of a zone show at a time, as `2026-11-23T09:15`. */
export function localText(timeZone: string, time: number): string {
  return new Date(time + offsetAt(timeZone, time)).toISOString().slice(0, 16);
}

/** Return when the clocks of a zone show what those of UTC show at `local`. */
function timeOf(timeZone: string, local: number): number {
  const first = local - offsetAt(timeZone, local);
  // The offset may change between the two times. Of both candidates the later one is right where midnight is skipped.
  const second = local - offsetAt(timeZone, first);
  return offsetAt(timeZone, second) === local - second ? second : Math.max(first, second);
}

/** Return the range of the day, month or year of a date in a zone. `end` is exclusive. */
export function rangeOfPeriod(timeZone: string, period: Period, date: CalendarDate): { start: number; end: number } {
  const begin = beginOf(period, date);
  return { start: startOfDay(timeZone, begin), end: startOfDay(timeZone, moved(period, begin, 1)) };
}

/** Return a date some periods later; negative: earlier. The result is the first date of its period. */
export function moved(period: Period, date: CalendarDate, by: number): CalendarDate {
  const { year, month, day } = beginOf(period, date);
  const more = (unit: Period) => (unit === period ? by : 0);
  const found = new Date(Date.UTC(year + more("year"), month - 1 + more("month"), day + more("day")));
  return { year: found.getUTCFullYear(), month: found.getUTCMonth() + 1, day: found.getUTCDate() };
}

/** Return the date a year before. The year before 29 February has none: the result is 28 February. */
export function yearBefore({ year, month, day }: CalendarDate): CalendarDate {
  return { year: year - 1, month, day: month === 2 ? Math.min(day, 28) : day };
}

/** Return a date as `2026-11-23`. */
export function isoDate({ year, month, day }: CalendarDate): string {
  return `${year}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`;
}

/** Return the date of a text as `2026-11-23`; undefined if it is none. */
export function parseDate(text: string): CalendarDate | undefined {
  const [year, month, day] = (/^(\d{4})-(\d\d)-(\d\d)$/.exec(text) ?? []).slice(1).map(Number);
  if (year === undefined || month === undefined || day === undefined) return undefined;
  const date = { year, month, day };
  return isoDate(moved("day", date, 0)) === text ? date : undefined;
}

function beginOf(period: Period, { year, month, day }: CalendarDate): CalendarDate {
  return { year, month: period === "year" ? 1 : month, day: period === "day" ? day : 1 };
}

/** Return by how much the clocks of a zone are ahead of UTC at a time, in milliseconds. */
function offsetAt(timeZone: string, time: number): number {
  const { year, month, day, hour, minute } = partsIn(timeZone, time);
  return Date.UTC(year, month - 1, day, hour, minute) - Math.floor(time / MINUTE) * MINUTE;
}

function partsIn(timeZone: string, time: number) {
  const parts = new Intl.DateTimeFormat("en", {
    timeZone,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
  }).formatToParts(time);
  const of = (type: string) => Number(parts.find((part) => part.type === type)?.value);
  return { year: of("year"), month: of("month"), day: of("day"), hour: of("hour"), minute: of("minute") };
}
