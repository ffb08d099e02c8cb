/** Times for people, always in a named time zone. */

const UNITS = [
  { unit: "day", seconds: 86_400 },
  { unit: "hour", seconds: 3_600 },
  { unit: "minute", seconds: 60 },
  { unit: "second", seconds: 1 },
] as const;

/**
 * Return how long ago a time was: `5 minutes ago`. A clock that differs by seconds makes no time of the future.
 *
 * After a day, `1 day ago` and not `yesterday`: 47 hours ago was the day before.
 */
export function age(time: string, now: number, locale: string, style: "long" | "short" = "long"): string {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  const { unit, seconds: size } = unitOf(seconds);
  const numeric = seconds < 1 ? "auto" : "always";
  return new Intl.RelativeTimeFormat(locale, { numeric, style }).format(-Math.floor(seconds / size), unit);
}

/** Return in how much time something is, such as the end of a grace period: `in 5 minutes`. */
export function until(time: number, now: number, locale: string): string {
  const seconds = Math.max(0, (time - now) / 1000);
  const { unit, seconds: size } = unitOf(seconds);
  return new Intl.RelativeTimeFormat(locale).format(Math.round(seconds / size), unit);
}

function unitOf(seconds: number): (typeof UNITS)[number] {
  return UNITS.find((one) => seconds >= one.seconds) ?? UNITS[3];
}

/**
 * Return labels of a time axis: the time of day, with the date below it where a day begins; dates alone if the labels are a day or
 * more apart.
 *
 * @param seconds Times of the labels in epoch seconds, ascending.
 * @param distance Seconds between two labels.
 */
export function axisLabels(seconds: number[], distance: number, timeZone: string, locale: string): string[] {
  const day = new Intl.DateTimeFormat(locale, { timeZone, day: "numeric", month: "short" });
  const time = new Intl.DateTimeFormat(locale, {
    timeZone,
    hour: "2-digit",
    minute: "2-digit",
    ...(distance < 60 ? { second: "2-digit" } : {}),
    hourCycle: "h23",
  });
  let before = "";
  return seconds.map((one) => {
    const date = day.format(one * 1000);
    const isNew = date !== before;
    before = date;
    if (distance >= 86_400) return date;
    return isNew ? `${time.format(one * 1000)}\n${date}` : time.format(one * 1000);
  });
}

/** Return date and time in a zone with the zone's short name: `23 Nov 2026, 09:15:02 CET`. */
export function dateTime(time: string, timeZone: string, locale: string): string {
  return new Intl.DateTimeFormat(locale, {
    timeZone,
    day: "numeric",
    month: "short",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    timeZoneName: "short",
  }).format(new Date(time));
}

/** Return a date in a zone: `23 Nov 2026`. */
export function date(time: string, timeZone: string, locale: string): string {
  return new Intl.DateTimeFormat(locale, { timeZone, dateStyle: "medium" }).format(new Date(time));
}

/** Return the time of day in a zone with seconds: `09:15:02`. */
export function clock(time: string, timeZone: string, locale: string): string {
  const parts = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" } as const;
  return new Intl.DateTimeFormat(locale, { timeZone, ...parts }).format(new Date(time));
}

/** Return a function of times whose results are those of a zone as spreadsheets read them in every language: `2026-11-23 09:15:02`. */
export function sortableTimeIn(timeZone: string): (time: string) => string {
  // Swedes write times so.
  const format = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" });
  return (time) => format.format(new Date(time));
}
