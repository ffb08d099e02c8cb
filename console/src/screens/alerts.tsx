import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { PageHead } from "../ui/page-head";
import { AlertList } from "./alert-list";

const route = getRouteApi("/inside/o/$slug/alerts");

/** The alerts of all plants. */
export function AlertsScreen() {
  const texts = useTexts();
  const { organization } = route.useRouteContext();
  const navigate = route.useNavigate();
  return (
    <>
      <PageHead title={texts.alerts.title} of={organization.name} />
      <AlertList search={route.useSearch()} onSearch={(search) => navigate({ search })} />
    </>
  );
}
