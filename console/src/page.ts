/** The last page of a list that the service returns. */
const MOST_PAGES = 1000;

/** Return the page of a URL if the list has it, from 2; undefined for the first one. */
export function pageOf(value: unknown): number | undefined {
  const page = Number(value);
  return Number.isInteger(page) && page > 1 && page <= MOST_PAGES ? page : undefined;
}
