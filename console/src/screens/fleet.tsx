import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { lazy, type ReactNode, Suspense, useEffect, useRef } from "react";
import { type FleetPlant, plantsQuery, summaryQuery } from "../fleet";
import { count, energy, percent, power, sign } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { CONDITIONS, type FleetSearch, type Sort, STATUSES, type Status } from "../searches/fleet";
import { mayAct } from "../session";
import { Age } from "../ui/age";
import { Failure } from "../ui/failure";
import { useNow } from "../ui/now";
import { LoadingPage } from "../ui/pages";
import { PlantHeading } from "../ui/plant-heading";
import { SearchField } from "../ui/search-field";
import { AlertState, PlantState } from "../ui/state";

const route = getRouteApi("/inside/o/$slug/fleet");
const FleetMapScreen = lazy(async () => ({ default: (await import("./fleet-map")).FleetMapScreen }));
const ROW = 53;
const KILO = 1000;

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
      <title>{`${texts.fleet.title} · ${organization.name}`}</title>
      <div className="toolbar">
        <h1 className="grow">{texts.fleet.title}</h1>
        {mayAct(user, organization, "OPERATOR") && (
          <Link to="/o/$slug/plants/import" params={{ slug }} className="button">
            {texts.import.link}
          </Link>
        )}
        {mayAct(user, organization, "ORG_ADMIN") && (
          <Link to="/o/$slug/plants/new" params={{ slug }} className="button">
            {texts.newPlant.link}
          </Link>
        )}
      </div>
      <Failure error={summary.error} />
      {isEmpty ? (
        <div className="card empty">
          <h2>{texts.fleet.empty}</h2>
          <p>{texts.fleet.emptyHelp}</p>
        </div>
      ) : (
        <>
          <Tiles />
          <Filters />
          {view === "map" ? (
            <Suspense fallback={<LoadingPage />}>
              <FleetMapScreen />
            </Suspense>
          ) : (
            <Plants />
          )}
        </>
      )}
    </>
  );
}

function Tiles() {
  const texts = useTexts();
  const locale = useLocale();
  const { organization } = route.useRouteContext();
  const { data } = useQuery(summaryQuery(organization.id));
  if (data === undefined) return null;
  const { power: now, storage, energyToday, energyMonth } = data;
  const watts = (kilowatts: number | null) => power(kilowatts === null ? null : Math.abs(kilowatts) * KILO, locale);
  return (
    <section className="tiles" aria-label={texts.fleet.summary}>
      <FilterTile label={texts.fleet.all} value={count(data.plants, locale)} search={{}} />
      <FilterTile
        label={texts.status.ONLINE}
        value={count(data.status.online, locale)}
        search={{ status: ["ONLINE"] }}
      />
      <FilterTile
        label={texts.status.OFFLINE}
        value={count(data.status.offline, locale)}
        search={{ status: ["OFFLINE"] }}
      />
      <FilterTile
        label={texts.status.UNKNOWN}
        value={count(data.status.unknown, locale)}
        search={{ status: ["UNKNOWN"] }}
      />
      <FilterTile
        label={texts.fleet.alerting}
        value={count(data.alerts.plants, locale)}
        search={{ alert: "ANY", sort: "alert", order: "desc" }}
      />
      <Tile label={texts.fleet.pv} value={watts(now.pvKw)} note={texts.fleet.fresh(now.freshPlants, now.stalePlants)} />
      <Tile label={texts.fleet.load} value={watts(now.loadKw)} />
      <Tile label={texts.fleet.grid} value={watts(now.gridKw)} note={texts.fleet.gridWord(sign(now.gridKw))} />
      <Tile
        label={texts.fleet.battery}
        value={watts(now.batteryKw)}
        note={texts.fleet.batteryWord(sign(now.batteryKw))}
      />
      <Tile
        label={texts.fleet.stored}
        value={energy(storage.storedKwh * KILO, locale)}
        note={texts.fleet.usable(energy(storage.usableKwh * KILO, locale))}
      />
      <Tile
        label={texts.fleet.producedToday}
        value={energy(energyToday.produced * KILO, locale)}
        note={energyMonth === null ? undefined : texts.fleet.month(energy(energyMonth.produced * KILO, locale))}
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
      search={{ ...search, view: current.view }}
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

function Filters() {
  const texts = useTexts();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <search className="toolbar">
      <SearchField
        label={texts.fleet.search}
        value={search.q}
        onSearch={(q) => navigate({ search: (before) => ({ ...before, q }), replace: true })}
      />
      <label>
        {texts.fleet.status}
        <select
          value={search.status?.[0] ?? ""}
          onChange={({ target }) =>
            navigate({
              search: (before) => ({ ...before, status: target.value === "" ? undefined : [target.value as Status] }),
            })
          }
        >
          <option value="">{texts.fleet.all}</option>
          {STATUSES.map((one) => (
            <option key={one} value={one}>
              {texts.status[one]}
            </option>
          ))}
        </select>
      </label>
      <label>
        {texts.fleet.alerts}
        <select
          value={search.alert ?? ""}
          onChange={({ target }) =>
            navigate({
              search: (before) => ({ ...before, alert: CONDITIONS.find((one) => one === target.value) }),
            })
          }
        >
          <option value="">{texts.fleet.all}</option>
          {CONDITIONS.map((one) => (
            <option key={one} value={one}>
              {texts.fleet.conditions[one]}
            </option>
          ))}
        </select>
      </label>
      <fieldset className="choices">
        <legend className="hidden">{texts.map.view}</legend>
        {([undefined, "map"] as const).map((view) => (
          <button
            key={view ?? "list"}
            type="button"
            aria-pressed={search.view === view}
            onClick={() => navigate({ search: ({ at: _at, ...before }) => ({ ...before, view }) })}
          >
            {view === "map" ? texts.map.title : texts.map.list}
          </button>
        ))}
      </fieldset>
    </search>
  );
}

function Plants() {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(1);
  const search = route.useSearch();
  const { organization } = route.useRouteContext();
  const list = useInfiniteQuery(plantsQuery(organization.id, search));
  const plants = list.data?.pages.flatMap(({ data }) => data) ?? [];
  const body = useRef<HTMLDivElement>(null);
  const rows = useWindowVirtualizer({
    count: plants.length,
    estimateSize: () => ROW,
    overscan: 10,
    scrollMargin: body.current?.offsetTop ?? 0,
  });
  const visible = rows.getVirtualItems();
  const last = visible.at(-1)?.index ?? 0;
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = list;
  useEffect(() => {
    if (last >= plants.length - 20 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [last, plants.length, hasNextPage, isFetchingNextPage, fetchNextPage]);
  const total = list.data?.pages[0]?.meta.total;
  const start = (visible[0]?.start ?? 0) - rows.options.scrollMargin;
  const end = rows.getTotalSize() - ((visible.at(-1)?.end ?? 0) - rows.options.scrollMargin);
  return (
    <section aria-label={texts.fleet.list}>
      <Failure error={list.error} />
      <p className="fine" role="status">
        {total !== undefined && texts.fleet.count(count(total, locale), total)}
      </p>
      {total === 0 && <p className="card empty">{texts.fleet.none}</p>}
      {total !== undefined && total > 0 && (
        <div className="table" ref={body}>
          <table aria-rowcount={total + 1}>
            <thead>
              <tr>
                <Heading sort="name">{texts.fleet.name}</Heading>
                <Heading sort="status">{texts.fleet.status}</Heading>
                <Heading sort="lastSeenAt">{texts.fleet.lastSeen}</Heading>
                <Heading sort="alert" first="desc">
                  {texts.fleet.worst}
                </Heading>
                <Heading sort="pv" first="desc" isNumber>
                  {texts.fleet.pv}
                </Heading>
                <Heading sort="grid" first="desc" isNumber>
                  {texts.fleet.grid}
                </Heading>
                <Heading sort="soc" isNumber>
                  {texts.fleet.soc}
                </Heading>
                <Heading sort="energyToday" first="desc" isNumber>
                  {texts.fleet.producedToday}
                </Heading>
              </tr>
            </thead>
            <tbody>
              {start > 0 && <tr style={{ height: start }} />}
              {visible.map(({ index }) => {
                const plant = plants[index];
                return plant && <Row key={plant.id} plant={plant} index={index} now={now} slug={organization.slug} />;
              })}
              {end > 0 && <tr style={{ height: end }} />}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

interface HeadingProps {
  sort: Sort;
  /** The order of the first click. */
  first?: "asc" | "desc";
  isNumber?: boolean;
  children: ReactNode;
}

function Heading({ sort, first = "asc", isNumber = false, children }: HeadingProps) {
  const { sort: current = "name", order = "asc" } = route.useSearch();
  const navigate = route.useNavigate();
  const isCurrent = current === sort;
  const next = isCurrent ? (order === "asc" ? "desc" : "asc") : first;
  return (
    <th
      scope="col"
      className={isNumber ? "number" : ""}
      aria-sort={isCurrent ? (order === "asc" ? "ascending" : "descending") : undefined}
    >
      <button
        type="button"
        className="sort"
        onClick={() =>
          navigate({ search: (before) => ({ ...before, sort, order: next === "desc" ? "desc" : undefined }) })
        }
      >
        {children}
        <span aria-hidden="true">{isCurrent ? (order === "asc" ? " ▲" : " ▼") : ""}</span>
      </button>
    </th>
  );
}

function Row({ plant, index, now, slug }: { plant: FleetPlant; index: number; now: number; slug: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const { power: powers, energyToday } = plant;
  const stale = powers !== null && !powers.fresh ? "stale" : "";
  const watts = (kilowatts: number | null | undefined) =>
    power(kilowatts === null || kilowatts === undefined ? null : Math.abs(kilowatts) * KILO, locale);
  return (
    <tr aria-rowindex={index + 2}>
      <PlantHeading slug={slug} plant={plant} />
      <td>
        <PlantState status={plant.status} />
      </td>
      <td>
        <Age time={plant.lastSeenAt} now={now} timeZone="UTC" short />
      </td>
      <td>{plant.worstAlert && <AlertState severity={plant.worstAlert} count={plant.openAlerts} />}</td>
      <td className={`number ${stale}`}>{watts(powers?.pvKw)}</td>
      <td className={`number ${stale}`}>
        {watts(powers?.gridKw)}
        <span className="fine">{texts.fleet.gridWord(sign(powers?.gridKw))}</span>
      </td>
      <td className={`number ${stale}`}>{percent(plant.soc, locale)}</td>
      <td className="number">{energy(energyToday === null ? null : energyToday.produced * KILO, locale)}</td>
    </tr>
  );
}
