import { type ListSearch, listSearch } from "./list";

/** Which users are listed. */
export const ACCOUNTS = ["superAdmins", "disabled"] as const;

/** What the URL says about a list of the administration. */
export interface AdminSearch extends ListSearch {
  only?: (typeof ACCOUNTS)[number] | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function adminSearch({ only, ...list }: Record<string, unknown>): AdminSearch {
  return { ...listSearch(list), only: ACCOUNTS.find((one) => one === only) };
}
