/** The last page of a list that the service returns. */
const MOST_PAGES = 1000;
const MOST_CHARACTERS = 100;

/** Return the page of a URL if the list has it, from 2; undefined for the first one. */
export function pageOf(value: unknown): number | undefined {
  const page = Number(value);
  return Number.isInteger(page) && page > 1 && page <= MOST_PAGES ? page : undefined;
}

/** Return the text of a URL that a list is searched for; undefined for none. */
export function textOf(value: unknown): string | undefined {
  const text = typeof value === "string" ? value.trim().slice(0, MOST_CHARACTERS) : "";
  return text === "" ? undefined : text;
}

/** Return the values of a URL that exist; undefined for none. */
export function valuesOf<T>(known: readonly T[], values: unknown): T[] | undefined {
  const found = Array.isArray(values) ? known.filter((one) => values.includes(one)) : [];
  return found.length === 0 ? undefined : found;
}
