import { pageOf, textOf } from "./values";

/** What the URL says about a list that is searched and paged. */
export interface ListSearch {
  q?: string | undefined;
  /** From 1. */
  page?: number | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function listSearch({ q, page }: Record<string, unknown>): ListSearch {
  return { q: textOf(q), page: pageOf(page) };
}
