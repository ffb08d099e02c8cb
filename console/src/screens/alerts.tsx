import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { AlertList } from "./alert-list";

const route = getRouteApi("/inside/o/$slug/alerts");

/** The alerts of all plants. */
export function AlertsScreen() {
  const texts = useTexts();
  const { organization } = route.useRouteContext();
  const navigate = route.useNavigate();
  return (
    <>
      <title>{`${texts.alerts.title} · ${organization.name}`}</title>
      <h1>{texts.alerts.title}</h1>
      <AlertList search={route.useSearch()} onSearch={(search) => navigate({ search })} />
    </>
  );
}
