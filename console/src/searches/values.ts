/** The last page of a list that the service returns. */
export const MOST_PAGES = 1000;
const MOST_CHARACTERS = 100;

/** Return the page of a URL if the list has it, from 2; undefined for the first one. */
export function pageOf(value: unknown): number | undefined {
  const page = numberOf(value);
  return Number.isInteger(page) && page > 1 && page <= MOST_PAGES ? page : undefined;
}

/** Return whether the service returns no page after this one. */
export function isLastPage({ page, totalPages }: { page: number; totalPages: number }): boolean {
  return page >= Math.min(totalPages, MOST_PAGES);
}

/** Return the id of a URL; undefined if it is none. */
export function idOf(value: unknown): string | undefined {
  return typeof value === "string" && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value) ? value : undefined;
}

/** Return the number of a URL; NaN for anything else. Objects of a URL may have no conversion. */
export function numberOf(value: unknown): number {
  return typeof value === "number" || typeof value === "string" ? Number(value) : Number.NaN;
}

/** Return the time of a URL in ISO 8601; undefined if it is none of the years 0 to 9999, in which all zones can show it. */
export function timeOf(value: unknown): string | undefined {
  const time = typeof value === "string" ? Date.parse(value) : Number.NaN;
  const text = Number.isNaN(time) ? "" : new Date(time).toISOString();
  return /^\d{4}-/.test(text) ? text : undefined;
}

/** Return the times of a URL between which a list shows records; no times if they are no range, which the service refuses. */
export function timesOf(times: Record<string, unknown>): { from: string | undefined; to: string | undefined } {
  const [from, to] = [timeOf(times.from), timeOf(times.to)];
  return from === undefined || to === undefined || from < to ? { from, to } : { from: undefined, to: undefined };
}

/** Return the time zone of a URL, in the spelling that the service knows; undefined if the browser has no such zone. */
export function zoneOf(value: unknown): string | undefined {
  // An offset such as +01:00 is a zone for browsers only.
  if (typeof value !== "string" || !/^[a-z]/i.test(value)) return undefined;
  try {
    const zone = nameOfZone(value);
    // Browsers have former names: Asia/Calcutta for Asia/Kolkata. A name without a capital is none that the service knows.
    return /[A-Z]/.test(value) && zone.toLowerCase() !== value.toLowerCase() ? value : zone;
  } catch {
    return undefined;
  }
}

/** Return a stored time zone; UTC if the browser, which may be older than the zone, does not know it. */
export function knownZone(stored: string): string {
  return zoneOf(stored) ?? "UTC";
}

/** Return the browser's name of a time zone that it knows; without one, that of its own. */
export function nameOfZone(timeZone?: string): string {
  return new Intl.DateTimeFormat("en", { timeZone }).resolvedOptions().timeZone;
}

/**
 * Return the text of a URL that a list is searched for; undefined for none. One of digits in a link that was written by hand is a
 * number. Halves of characters cannot be sent.
 */
export function textOf(value: unknown): string | undefined {
  const text =
    typeof value === "string" || Number.isFinite(value)
      ? String(value)
          .trim()
          .slice(0, MOST_CHARACTERS)
          .replace(/\p{Surrogate}/gu, "")
      : "";
  return text === "" ? undefined : text;
}

/** Return the values of a URL that exist; undefined for none. */
export function valuesOf<T>(known: readonly T[], values: unknown): T[] | undefined {
  const found = Array.isArray(values) ? known.filter((one) => values.includes(one)) : [];
  return found.length === 0 ? undefined : found;
}
