import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { ChangeList } from "./change-list";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/audit");

/** Who changed what of a plant. */
export function PlantAuditScreen() {
  const texts = useTexts();
  const navigate = route.useNavigate();
  const { plantId } = route.useParams();
  return (
    <ChangeList plantId={plantId} search={route.useSearch()} onSearch={(search) => navigate({ search })}>
      <h2 className="grow">{texts.audit.title}</h2>
    </ChangeList>
  );
}
