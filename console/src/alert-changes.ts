import { filtersOf } from "./alerts";
import { apiOf, dataOf } from "./api/client";
import type { AlertSearch } from "./searches/alerts";
import { isLastPage, MOST_PAGES } from "./searches/values";

/** The most alerts of a page, and of a change: limits of the API. */
const LONGEST_PAGE = 100;
const MOST_CHANGED = 500;
/** As many as all pages have that the service returns. */
export const MOST_CHOSEN = MOST_PAGES * LONGEST_PAGE;

/** Return the ids of all alerts that match; of the first ones if they are too many. */
export async function idsOfAlerts(organizationId: string, search: AlertSearch, plantId?: string) {
  const ids = new Set<string>();
  for (let page = 1; ; page++) {
    const query = { ...filtersOf(search, plantId), page, limit: LONGEST_PAGE };
    const { data, meta } = await dataOf(apiOf(organizationId).GET("/api/v1/alerts", { params: { query } }));
    for (const { id } of data) ids.add(id);
    if (isLastPage(meta)) return ids;
  }
}

/** Acknowledge or resolve alerts, the first ones first. Those that were resolved meanwhile stay so. */
export async function changeAlerts(organizationId: string, change: "acknowledge" | "resolve", ids: readonly string[]) {
  for (let start = 0; start < ids.length; start += MOST_CHANGED) {
    const alertIds = ids.slice(start, start + MOST_CHANGED);
    await dataOf(apiOf(organizationId).POST(`/api/v1/alerts/${change}`, { body: { alertIds } }));
  }
}
