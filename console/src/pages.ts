import type { Catalogue } from "./i18n";
import { menuOf } from "./menu";
import { mayAct, type SessionOrganization, type SessionUser } from "./session";

/** Return the pages about the whole service, for SuperAdmins, with their labels. */
export function adminMenuOf({ admin, templates }: Catalogue) {
  return [
    { to: "/admin/organizations", label: admin.organizations },
    { to: "/admin/users", label: admin.users },
    { to: "/admin/templates", label: templates.title },
    { to: "/admin/sandbox", label: admin.sandbox },
    { to: "/admin/notifications", label: admin.notifications },
    { to: "/admin/cache", label: admin.cache },
    { to: "/admin/keys", label: admin.keys },
    { to: "/admin/health", label: admin.health },
  ] as const;
}

/** Return the pages that SuperAdmins find besides those of an organisation; without one, also those that lead to one. */
export function adminPagesOf(texts: Catalogue, isOutside: boolean) {
  const pages = [...adminMenuOf(texts), { to: "/me", label: texts.menu.me }] as const;
  return pages.filter(({ to }) => isOutside || (to !== "/admin/templates" && to !== "/me"));
}

/** Return the pages of an organisation that a user may see, also those that are not in the menu, with their labels. */
export function pagesOf(texts: Catalogue, user: SessionUser, organization: SessionOrganization) {
  const further = [
    { to: "/o/$slug/me", label: texts.menu.me, isAllowed: true },
    { to: "/o/$slug/plants/new", label: texts.newPlant.title, isAllowed: mayAct(user, organization, "ORG_ADMIN") },
    { to: "/o/$slug/plants/import", label: texts.import.title, isAllowed: mayAct(user, organization, "OPERATOR") },
    { to: "/o/$slug/rules/new", label: texts.rules.add, isAllowed: mayAct(user, organization, "OPERATOR") },
    { to: "/o/$slug/templates/new", label: texts.templates.add, isAllowed: user.isSuperAdmin },
  ] as const;
  return [...menuOf(texts, user, organization), ...further.filter(({ isAllowed }) => isAllowed)];
}
