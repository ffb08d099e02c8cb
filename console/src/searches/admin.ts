import { pageOf, textOf } from "./values";

/** Which users are listed. */
export const ACCOUNTS = ["superAdmins", "disabled"] as const;

/** What the URL says about a list of the administration. */
export interface AdminSearch {
  q?: string | undefined;
  /** From 1. */
  page?: number | undefined;
  only?: (typeof ACCOUNTS)[number] | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function adminSearch({ q, page, only }: Record<string, unknown>): AdminSearch {
  return { q: textOf(q), page: pageOf(page), only: ACCOUNTS.find((one) => one === only) };
}
