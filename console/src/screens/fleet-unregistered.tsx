import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { unregisteredOfFleetQuery } from "../plants";
import { Failure } from "../ui/failure";

const route = getRouteApi("/inside/o/$slug/fleet");

/** Devices whose values are not stored because they are not registered, each with the way to register it. */
export function FleetUnregistered() {
  const texts = useTexts();
  const locale = useLocale();
  const { slug } = route.useParams();
  const { organization } = route.useRouteContext();
  const devices = useQuery(unregisteredOfFleetQuery(organization.id));
  if (devices.error) return <Failure error={devices.error} />;
  if (!devices.data?.data.length) return null;
  const { data, meta } = devices.data;
  return (
    <div className="hint">
      {texts.fleet.unregistered(count(meta.total, locale), meta.total)}{" "}
      {data.map(({ plantId, plantName, externalId }, index) => (
        <span key={`${plantId} ${externalId}`}>
          {index > 0 && ", "}
          <Link to="/o/$slug/plants/$plantId/devices" params={{ slug, plantId }}>
            {texts.fleet.deviceOf(externalId, plantName)}
          </Link>
        </span>
      ))}
      {meta.total > data.length ? " …" : ""}
    </div>
  );
}
