import type { Catalogue } from "./i18n";
import { mayAct, type SessionOrganization, type SessionUser } from "./session";

/** The pages of the menu, in its order, each with the role that it needs. */
const PAGES = [
  { page: "fleet", to: "/o/$slug/fleet", role: "VIEWER" },
  { page: "alerts", to: "/o/$slug/alerts", role: "VIEWER" },
  { page: "rules", to: "/o/$slug/rules", role: "VIEWER" },
  { page: "groups", to: "/o/$slug/groups", role: "VIEWER" },
  { page: "templates", to: "/o/$slug/templates", role: "VIEWER" },
  { page: "trading", to: "/o/$slug/trading", role: "VIEWER" },
  { page: "partners", to: "/o/$slug/partners", role: "ORG_ADMIN" },
  { page: "people", to: "/o/$slug/people", role: "ORG_ADMIN" },
  { page: "audit", to: "/o/$slug/audit", role: "ORG_ADMIN" },
] as const;

/** Return the pages of the menu that a user may see, with their labels. */
export function menuOf(texts: Catalogue, user: SessionUser, organization: SessionOrganization) {
  return PAGES.filter(({ role }) => mayAct(user, organization, role)).map(({ page, to }) => ({
    to,
    label: texts.menu[page],
  }));
}
