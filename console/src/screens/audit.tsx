import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { ChangeList } from "./change-list";
import { ForAdministrators } from "./for-administrators";

const route = getRouteApi("/inside/o/$slug/audit");

/** Who changed what in the organisation. */
export function AuditScreen() {
  const texts = useTexts();
  return (
    <ForAdministrators title={texts.audit.title}>
      <Audit />
    </ForAdministrators>
  );
}

function Audit() {
  const texts = useTexts();
  const navigate = route.useNavigate();
  const { organization } = route.useRouteContext();
  return (
    <ChangeList search={route.useSearch()} onSearch={(search) => navigate({ search })}>
      <title>{`${texts.audit.title} · ${organization.name}`}</title>
      <h1 className="grow">{texts.audit.title}</h1>
    </ChangeList>
  );
}
