import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, Outlet, useSearch } from "@tanstack/react-router";
import { ApiError } from "../api/error";
import { fleetPlantQuery } from "../fleet";
import { useTexts } from "../i18n";
import { plantQuery } from "../plants";
import { knownZone } from "../searches/values";
import { mayAct } from "../session";
import { Age } from "../ui/age";
import { Failure } from "../ui/failure";
import { useNow } from "../ui/now";
import { PlantState, PlantTrouble } from "../ui/state";
import { PlantActions } from "./plant-actions";

const route = getRouteApi("/inside/o/$slug/plants/$plantId");
const TABS = [
  "live",
  "history",
  "energy",
  "devices",
  "commands",
  "messages",
  "alerts",
  "trading",
  "credentials",
  "audit",
] as const;

/** The frame of a plant's screens: its name, state and tabs. */
export function PlantFrame() {
  const texts = useTexts();
  const now = useNow(1);
  const { user, organization } = route.useRouteContext();
  const params = route.useParams();
  const { timeZone } = useSearch({ strict: false });
  const plant = useQuery({ ...plantQuery(organization.id, params.plantId), refetchInterval: 30_000 });
  // The live screen reads it again more often, and the stream changes it.
  const row = useQuery({ ...fleetPlantQuery(organization.id, params.plantId), refetchInterval: 60_000 });
  // Until it can be read again, a plant stays on the screen, with what was typed and with secrets that are shown once.
  const isGone = plant.error !== null && (plant.data === undefined || isMissing(plant.error));
  const labels = {
    ...texts.plant,
    commands: texts.devices.commands,
    alerts: texts.alerts.title,
    audit: texts.audit.title,
  };
  return (
    <>
      <header className="plant-head">
        <nav aria-label={texts.plant.path}>
          <Link to="/o/$slug/fleet" params={params}>
            {texts.fleet.title}
          </Link>
        </nav>
        <div className="toolbar">
          <h1 className="grow">{plant.data?.name ?? (plant.error ? texts.plant.plantItself : texts.loading)}</h1>
          {/* As below: a form that is open would change the other plant. */}
          {plant.data && <PlantActions key={params.plantId} plant={plant.data} />}
        </div>
        {plant.data && (
          <p className="facts">
            <title>{`${plant.data.name} · ${organization.name}`}</title>
            <PlantState status={plant.data.status} />
            {row.data && <PlantTrouble slug={params.slug} plant={row.data} />}
            {plant.data.lifecycleStatus !== "ACTIVE" && <strong>{texts.lifecycle[plant.data.lifecycleStatus]}</strong>}
            <span>{plant.data.serialNumber}</span>
            <span>
              {texts.fleet.lastSeen}:{" "}
              <Age time={plant.data.lastSeenAt} now={now} timeZone={knownZone(plant.data.effectiveTimeZone)} />
            </span>
          </p>
        )}
        {plant.data && plant.data.lifecycleStatus !== "ACTIVE" && (
          <p className="hint">
            {texts.plant.inactive[plant.data.lifecycleStatus]}{" "}
            <Link to="/o/$slug/plants/$plantId/credentials" params={params}>
              {texts.plant.credentials}
            </Link>
          </p>
        )}
        <nav className="tabs" aria-label={texts.plant.tabs}>
          {TABS.filter((tab) => tab !== "audit" || mayAct(user, organization, "ORG_ADMIN")).map((tab) => (
            <Link
              key={tab}
              to={`/o/$slug/plants/$plantId/${tab}`}
              params={params}
              // Charts and energies of a plant are compared in the same zone.
              search={tab === "history" || tab === "energy" ? { timeZone } : {}}
            >
              {labels[tab]}
            </Link>
          ))}
        </nav>
      </header>
      <Failure error={plant.error} />
      {/* Back and forward may lead to another plant: nothing of the former one stays. */}
      {!isGone && <Outlet key={params.plantId} />}
    </>
  );
}

function isMissing(error: Error): boolean {
  return error instanceof ApiError && error.status === 404;
}
