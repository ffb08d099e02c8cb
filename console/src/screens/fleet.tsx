import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Suspense } from "react";
import { summaryQuery } from "../fleet";
import { useTexts } from "../i18n";
import { mayAct } from "../session";
import { Failure } from "../ui/failure";
import { lazyPart } from "../ui/lazy-part";
import { PageHead } from "../ui/page-head";
import { LoadingPage } from "../ui/pages";
import { FleetFilters } from "./fleet-filters";
import { FleetTable } from "./fleet-table";
import { FleetTiles } from "./fleet-tiles";

const route = getRouteApi("/inside/o/$slug/fleet");
const FleetUnregistered = lazyPart(async () => (await import("./fleet-unregistered")).FleetUnregistered);
const FleetMapScreen = lazyPart(async () => (await import("./fleet-map")).FleetMapScreen);

/** Totals of the fleet, and its plants with filters in the URL. */
export function FleetScreen() {
  const texts = useTexts();
  const { slug } = route.useParams();
  const { view } = route.useSearch();
  const { user, organization } = route.useRouteContext();
  const summary = useQuery(summaryQuery(organization.id));
  const isEmpty = summary.data?.plants === 0;
  return (
    <>
      <PageHead title={texts.fleet.title} of={organization.name}>
        {mayAct(user, organization, "OPERATOR") && (
          <Link to="/o/$slug/plants/import" params={{ slug }} className="button">
            {texts.import.link}
          </Link>
        )}
        {mayAct(user, organization, "ORG_ADMIN") && (
          <Link to="/o/$slug/plants/new" params={{ slug }} className="button primary">
            {texts.newPlant.link}
          </Link>
        )}
      </PageHead>
      <Failure error={summary.error} />
      {isEmpty ? (
        <div className="card empty">
          <h2>{texts.fleet.empty}</h2>
          <p>{texts.fleet.emptyHelp}</p>
        </div>
      ) : (
        <>
          <FleetTiles />
          <Suspense>
            <FleetUnregistered />
          </Suspense>
          <FleetFilters />
          {view === "map" ? (
            <Suspense fallback={<LoadingPage />}>
              <FleetMapScreen />
            </Suspense>
          ) : (
            <FleetTable />
          )}
        </>
      )}
    </>
  );
}
