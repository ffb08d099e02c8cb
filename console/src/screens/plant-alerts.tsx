import { getRouteApi } from "@tanstack/react-router";
import { AlertList } from "./alert-list";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/alerts");

/** The alerts of a plant. */
export function PlantAlertsScreen() {
  const navigate = route.useNavigate();
  const { plantId } = route.useParams();
  return <AlertList plantId={plantId} search={route.useSearch()} onSearch={(search) => navigate({ search })} />;
}
