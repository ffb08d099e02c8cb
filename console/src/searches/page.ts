import { pageOf } from "./values";

/** What the URL says about a list that has pages alone. */
export interface PageSearch {
  /** From 1. */
  page?: number | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function pageSearch({ page }: Record<string, unknown>): PageSearch {
  return { page: pageOf(page) };
}
