import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { filtersOf, refusedPlantsQuery, summaryQuery } from "../fleet";
import { count, energy, power, sign, unsignedPower } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { type FleetSearch, LIFECYCLES, type Sort, STATUSES } from "../searches/fleet";
import { AlertState, PlantState, RefusedState } from "../ui/state";

const route = getRouteApi("/inside/o/$slug/fleet");

/** Totals of the fleet: those of plants filter the list, the others sort it. */
export function FleetTiles() {
  const texts = useTexts();
  const locale = useLocale();
  const { organization } = route.useRouteContext();
  const { data } = useQuery(summaryQuery(organization.id));
  const { data: refused } = useQuery(refusedPlantsQuery(organization.id));
  if (data === undefined) return null;
  const { status, alerts, power: now, storage, energyToday, energyMonth } = data;
  const severity = alerts.emergency + alerts.critical > 0 ? "CRITICAL" : alerts.warning > 0 ? "WARNING" : "INFO";
  const plants = { ONLINE: status.online, OFFLINE: data.offlineInUse, UNKNOWN: status.unknown };
  return (
    <section className="tiles" aria-label={texts.fleet.summary}>
      <FilterTile label={texts.fleet.all} value={count(data.plants, locale)} search={{}} />
      {STATUSES.map((one) => (
        <FilterTile
          key={one}
          label={one === "OFFLINE" && plants[one] > 0 ? <PlantState status={one} /> : texts.status[one]}
          value={count(plants[one], locale)}
          // A revoked plant stays offline for ever.
          search={{ status: [one], lifecycleStatus: one === "OFFLINE" ? LIFECYCLES.slice(0, 3) : undefined }}
        />
      ))}
      <FilterTile
        label={
          alerts.plants > 0 ? <AlertState severity={severity} word={texts.fleet.alerting} /> : texts.fleet.alerting
        }
        value={count(alerts.plants, locale)}
        search={{ alert: "ANY", sort: "alert", order: "desc" }}
      />
      <FilterTile
        label={refused ? <RefusedState word={texts.fleet.refusing} /> : texts.fleet.refusing}
        value={refused === undefined ? "–" : count(refused, locale)}
        search={{ refused: true }}
      />
      <SortTile
        sort="pv"
        label={texts.fleet.pv}
        value={power(now.pvKw, locale)}
        note={texts.fleet.fresh(count(now.freshPlants, locale), now.freshPlants, count(now.stalePlants, locale))}
      />
      <SortTile sort="load" label={texts.fleet.load} value={power(now.loadKw, locale)} />
      <SortTile
        sort="grid"
        label={texts.fleet.grid}
        value={unsignedPower(now.gridKw, locale)}
        note={texts.fleet.gridWord(sign(now.gridKw))}
      />
      <SortTile
        sort="battery"
        label={texts.fleet.battery}
        value={unsignedPower(now.batteryKw, locale)}
        note={texts.fleet.batteryWord(sign(now.batteryKw))}
      />
      <SortTile
        sort="soc"
        label={texts.fleet.stored}
        value={energy(storage.plants === 0 ? null : storage.storedKwh, locale)}
        note={storage.plants === 0 ? undefined : texts.fleet.usable(energy(storage.usableKwh, locale))}
      />
      <SortTile
        sort="energyToday"
        label={texts.fleet.producedToday}
        value={energy(energyToday.produced, locale)}
        note={energyMonth === null ? undefined : texts.fleet.month(energy(energyMonth.produced, locale))}
      />
    </section>
  );
}

interface TileProps {
  /** With the mark of a state, it stands out. */
  label: ReactNode;
  value: string;
  note?: string | undefined;
}

/** A tile that lists the plants that it counts. */
function FilterTile({ search, ...tile }: TileProps & { search: FleetSearch }) {
  const current = route.useSearch();
  return (
    <Tile
      {...tile}
      search={{ ...search, view: current.view }}
      isCurrent={JSON.stringify(filtersOf(current)) === JSON.stringify(filtersOf(search))}
    />
  );
}

/** A tile that lists the plants with the highest values first. The filters stay; a map has no order. */
function SortTile({ sort, ...tile }: TileProps & { sort: Sort }) {
  const texts = useTexts();
  const current = route.useSearch();
  return (
    <Tile
      {...tile}
      title={texts.fleet.highest}
      search={{ ...filtersOf(current), sort, order: "desc" }}
      isCurrent={current.sort === sort && current.order === "desc" && current.view === undefined}
    />
  );
}

interface LinkProps extends TileProps {
  title?: string;
  search: FleetSearch;
  isCurrent: boolean;
}

function Tile({ label, value, note, title, search, isCurrent }: LinkProps) {
  const { slug } = route.useParams();
  return (
    <Link
      to="/o/$slug/fleet"
      params={{ slug }}
      search={search}
      title={title}
      // Otherwise each of them with fewer filters than the page would be the current one too.
      activeOptions={{ exact: true }}
      className="tile"
      aria-current={isCurrent || undefined}
    >
      <span className="fine">{label}</span>
      <strong>{value}</strong>
      {note && <span className="fine">{note}</span>}
    </Link>
  );
}
