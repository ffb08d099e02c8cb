/** Times for people, always in a named time zone. */

const UNITS = [
  { unit: "day", seconds: 86_400 },
  { unit: "hour", seconds: 3_600 },
  { unit: "minute", seconds: 60 },
  { unit: "second", seconds: 1 },
] as const;

/** Return how long ago a time was: `5 minutes ago`. A clock that differs by seconds makes no time of the future. */
export function age(time: string, now: number, language: string): string {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  const { unit, seconds: size } = UNITS.find((one) => seconds >= one.seconds) ?? { unit: "second", seconds: 1 };
  return new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "long" }).format(
    -Math.floor(seconds / size),
    unit,
  );
}

/** Return date and time in a zone with the zone's short name: `23 Nov 2026, 09:15:02 CET`. */
export function dateTime(time: string, timeZone: string, language: string): string {
  return new Intl.DateTimeFormat(language, {
    timeZone,
    day: "numeric",
    month: "short",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hour12: false,
    timeZoneName: "short",
  }).format(new Date(time));
}
