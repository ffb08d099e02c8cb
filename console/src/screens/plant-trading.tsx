import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useTimeZone } from "../plants";
import { siteQuery } from "../trading";
import { Failure } from "../ui/failure";
import { SiteAdherence } from "./site-adherence";
import { SiteCommands } from "./site-commands";
import { SitePresent } from "./site-present";
import { SiteSchedule } from "./site-schedule";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/trading");

/** A site: what partners have set, its schedule now or at an earlier time, how its power followed, and what was requested. */
export function PlantTradingScreen() {
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const timeZone = useTimeZone(organization, plantId);
  const site = useQuery(siteQuery(organization.id, plantId));
  return (
    <>
      <Failure error={site.error} />
      {site.data && <SitePresent site={site.data} timeZone={timeZone} />}
      <SiteSchedule timeZone={timeZone} />
      <SiteAdherence timeZone={timeZone} />
      <SiteCommands timeZone={timeZone} />
    </>
  );
}
