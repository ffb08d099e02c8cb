import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { refusedPlantsQuery, summaryQuery } from "../fleet";
import { count, energy, power, sign, unsignedPower } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { type FleetSearch, STATUSES } from "../searches/fleet";

const route = getRouteApi("/inside/o/$slug/fleet");

/** Totals of the fleet; some of them filter the list. */
export function FleetTiles() {
  const texts = useTexts();
  const locale = useLocale();
  const { organization } = route.useRouteContext();
  const { data } = useQuery(summaryQuery(organization.id));
  const { data: refused } = useQuery(refusedPlantsQuery(organization.id));
  if (data === undefined) return null;
  const { status, power: now, storage, energyToday, energyMonth } = data;
  const plants = { ONLINE: status.online, OFFLINE: status.offline, UNKNOWN: status.unknown };
  return (
    <section className="tiles" aria-label={texts.fleet.summary}>
      <FilterTile label={texts.fleet.all} value={count(data.plants, locale)} search={{}} />
      {STATUSES.map((one) => (
        <FilterTile key={one} label={texts.status[one]} value={count(plants[one], locale)} search={{ status: [one] }} />
      ))}
      <FilterTile
        label={texts.fleet.alerting}
        value={count(data.alerts.plants, locale)}
        search={{ alert: "ANY", sort: "alert", order: "desc" }}
      />
      <FilterTile
        label={texts.fleet.refused}
        value={refused === undefined ? "–" : count(refused, locale)}
        search={{ refused: true }}
      />
      <Tile
        label={texts.fleet.pv}
        value={power(now.pvKw, locale)}
        note={texts.fleet.fresh(now.freshPlants, now.stalePlants)}
      />
      <Tile label={texts.fleet.load} value={power(now.loadKw, locale)} />
      <Tile
        label={texts.fleet.grid}
        value={unsignedPower(now.gridKw, locale)}
        note={texts.fleet.gridWord(sign(now.gridKw))}
      />
      <Tile
        label={texts.fleet.battery}
        value={unsignedPower(now.batteryKw, locale)}
        note={texts.fleet.batteryWord(sign(now.batteryKw))}
      />
      <Tile
        label={texts.fleet.stored}
        value={energy(storage.plants === 0 ? null : storage.storedKwh, locale)}
        note={storage.plants === 0 ? undefined : texts.fleet.usable(energy(storage.usableKwh, locale))}
      />
      <Tile
        label={texts.fleet.producedToday}
        value={energy(energyToday.produced, locale)}
        note={energyMonth === null ? undefined : texts.fleet.month(energy(energyMonth.produced, locale))}
      />
    </section>
  );
}

function Tile({ label, value, note }: { label: string; value: string; note?: string | undefined }) {
  return (
    <div className="tile">
      <span className="fine">{label}</span>
      <strong>{value}</strong>
      {note && <span className="fine">{note}</span>}
    </div>
  );
}

function FilterTile({ label, value, search }: { label: string; value: string; search: FleetSearch }) {
  const { slug } = route.useParams();
  const current = route.useSearch();
  const isCurrent = JSON.stringify(clean(current)) === JSON.stringify(clean(search));
  return (
    <Link
      to="/o/$slug/fleet"
      params={{ slug }}
      search={{ ...search, view: search.refused ? undefined : current.view }}
      // Otherwise each of them with fewer filters than the page would be the current one too.
      activeOptions={{ exact: true }}
      className="tile"
      aria-current={isCurrent ? "true" : undefined}
    >
      <span className="fine">{label}</span>
      <strong>{value}</strong>
    </Link>
  );
}

function clean({ view: _view, at: _at, ...filters }: FleetSearch): [string, unknown][] {
  return Object.entries(filters)
    .filter(([, value]) => value !== undefined)
    .sort(([a], [b]) => a.localeCompare(b));
}
