import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { mayAct } from "../session";
import { Refused } from "../ui/refused";
import { ChangeList } from "./change-list";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/audit");

/** Who changed what of a plant. */
export function PlantAuditScreen() {
  const texts = useTexts();
  const navigate = route.useNavigate();
  const { plantId } = route.useParams();
  const { user, organization } = route.useRouteContext();
  if (!mayAct(user, organization, "ORG_ADMIN")) return <Refused rights={texts.role.ORG_ADMIN} />;
  return (
    <ChangeList plantId={plantId} search={route.useSearch()} onSearch={(search) => navigate({ search })}>
      <h2 className="grow">{texts.audit.title}</h2>
    </ChangeList>
  );
}
