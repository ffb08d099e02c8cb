import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTexts } from "../i18n";
import { mayAct } from "../session";
import { PageHead } from "../ui/page-head";
import { Refused } from "../ui/refused";

const route = getRouteApi("/inside/o/$slug");

/** Show a page to administrators of the organisation; to others its title and who sees it. The service refuses them anyway. */
export function ForAdministrators({ title, children }: { title: string; children: ReactNode }) {
  const texts = useTexts();
  const { user, organization } = route.useRouteContext();
  if (mayAct(user, organization, "ORG_ADMIN")) return children;
  return (
    <>
      <PageHead title={title} of={organization.name} />
      <Refused rights={texts.role.ORG_ADMIN} />
    </>
  );
}
