import { type CalendarDate, dateIn, isoDate, type Period, parseDate } from "../format/zones";
import { zoneOf } from "./values";

export const PERIODS: readonly Period[] = ["day", "month", "year"];

/** What the URL says: a period and a date within it; without a date, the present. Both are those of a zone. */
export interface EnergySearch {
  period?: Period | undefined;
  date?: string | undefined;
  /** In which days begin; undefined: that of the plant. */
  timeZone?: string | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function energySearch(search: Record<string, unknown>): EnergySearch {
  const date = typeof search.date === "string" ? parseDate(search.date) : undefined;
  return {
    period: PERIODS.find((one) => one === search.period),
    date: date && isoDate(date),
    timeZone: zoneOf(search.timeZone),
  };
}

/** Return the date of a search in a zone. */
export function dateOf(search: EnergySearch, timeZone: string): CalendarDate {
  return parseDate(search.date ?? "") ?? dateIn(timeZone, Date.now());
}
