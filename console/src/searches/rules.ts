import { pageOf } from "./values";

export interface RulesSearch {
  /** From 1. */
  page?: number | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function rulesSearch({ page }: Record<string, unknown>): RulesSearch {
  return { page: pageOf(page) };
}
