import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef } from "react";
import { type FleetPlant, filtersOf, plantsQuery } from "../fleet";
import { energy, percent, power, sign, unsignedPower } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import type { Sort } from "../searches/fleet";
import { Failure } from "../ui/failure";
import { useFleetSelection } from "../ui/fleet-selection";
import { useNow } from "../ui/now";
import { PlantCells } from "../ui/plant-cells";
import { AlertState, RefusedState } from "../ui/state";
import { FleetActions, SelectAll } from "./fleet-selection";

const route = getRouteApi("/inside/o/$slug/fleet");
/** Height of most rows, in pixels. */
const ROW = 53;

/** The plants that match the filters. Only rows on the screen are drawn, and further ones are loaded as they are reached. */
export function FleetTable() {
  const texts = useTexts();
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
  // The list of former filters is shown until that of new ones is loaded.
  const matching = list.isPlaceholderData ? [] : plants;
  const selection = useFleetSelection(organization.id, filtersOf(search), matching, total);
  const start = (visible[0]?.start ?? 0) - rows.options.scrollMargin;
  const end = rows.getTotalSize() - ((visible.at(-1)?.end ?? 0) - rows.options.scrollMargin);
  return (
    <section aria-label={texts.fleet.list}>
      <Failure error={list.error} />
      <FleetActions total={total} selection={selection} />
      {total === 0 && <p className="card empty">{texts.fleet.none}</p>}
      {total !== undefined && total > 0 && (
        <div className="table" ref={body}>
          <table aria-rowcount={total + 1}>
            <thead>
              <tr>
                <SelectAll selection={selection} />
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
                return (
                  plant && (
                    <Row
                      key={plant.id}
                      plant={plant}
                      index={index}
                      now={now}
                      slug={organization.slug}
                      isSelected={selection.ids.has(plant.id)}
                      onSelect={selection.select}
                      measure={rows.measureElement}
                    />
                  )
                );
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

interface RowProps {
  plant: FleetPlant;
  index: number;
  now: number;
  slug: string;
  isSelected: boolean;
  onSelect: (id: string, isSelected: boolean) => void;
  /** Called with the element: a long name makes a row higher than others. */
  measure: (row: HTMLTableRowElement | null) => void;
}

function Row({ plant, index, now, slug, isSelected, onSelect, measure }: RowProps) {
  const texts = useTexts();
  const locale = useLocale();
  const { power: powers, energyToday } = plant;
  const stale = powers !== null && !powers.fresh ? "stale" : "";
  return (
    <tr aria-rowindex={index + 2} data-index={index} ref={measure}>
      <td className="select">
        <input
          type="checkbox"
          aria-label={texts.fleet.select(plant.name)}
          checked={isSelected}
          onChange={({ target }) => onSelect(plant.id, target.checked)}
        />
      </td>
      <PlantCells slug={slug} plant={plant} now={now} />
      <td className="states">
        {plant.worstAlert && <AlertState severity={plant.worstAlert} count={plant.openAlerts} />}
        {plant.lastRefusedAt && (
          <Link to="/o/$slug/plants/$plantId/messages" params={{ slug, plantId: plant.id }}>
            <RefusedState />
          </Link>
        )}
      </td>
      <td className={`number ${stale}`}>{power(powers?.pvKw, locale)}</td>
      <td className={`number ${stale}`}>
        {unsignedPower(powers?.gridKw, locale)}
        <span className="fine">{texts.fleet.gridWord(sign(powers?.gridKw))}</span>
      </td>
      <td className={`number ${stale}`}>{percent(plant.soc, locale)}</td>
      <td className="number">{energy(energyToday?.produced, locale)}</td>
    </tr>
  );
}
