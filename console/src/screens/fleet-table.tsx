import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";
import { type FleetPlant, filtersOf, plantsOf, plantsQuery } from "../fleet";
import { energy, percent, power, sign, unsignedPower } from "../format/quantities";
import { date, dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import type { Sort } from "../searches/fleet";
import type { SessionOrganization } from "../session";
import { Age } from "../ui/age";
import { Failure } from "../ui/failure";
import { useFleetSelection } from "../ui/fleet-selection";
import { useNow } from "../ui/now";
import { PlantHeading } from "../ui/plant-heading";
import { PlantState, PlantTrouble } from "../ui/state";
import { FleetActions, SelectAll } from "./fleet-selection";

const route = getRouteApi("/inside/o/$slug/fleet");
/** What the first click on a heading sorts in descending order. */
const HIGHEST_FIRST: readonly Sort[] = ["createdAt", "alert", "pv", "load", "grid", "battery", "energyToday"];
/** Height of most rows, in pixels: on a narrow screen, each is a card. */
const ROW = window.innerWidth < 720 ? 85 : 61;

/** The plants that match the filters. Only rows on the screen are drawn, and further ones are loaded as they are reached. */
export function FleetTable() {
  const texts = useTexts();
  const now = useNow(1);
  const search = route.useSearch();
  const { organization } = route.useRouteContext();
  const list = useInfiniteQuery(plantsQuery(organization.id, search));
  const plants = useMemo(() => plantsOf(list.data?.pages), [list.data]);
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
  // Not at the end of a request: one that is refused would be made again without end. It is made again after a scroll, or after
  // the list was read again.
  useEffect(() => {
    if (last >= plants.length - 20 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [last, list.dataUpdatedAt, hasNextPage, fetchNextPage]);
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
        <div className="table dense" ref={body}>
          <table aria-rowcount={total + 1}>
            <thead>
              <tr>
                <SelectAll selection={selection} />
                <Heading sorts={["name", "serialNumber"]} />
                <Heading sorts={["status"]} />
                <Heading sorts={["lastSeenAt", "createdAt"]} />
                <Heading sorts={["alert"]} />
                <Heading sorts={["pv", "load"]} isNumber />
                <Heading sorts={["grid", "battery"]} isNumber />
                <Heading sorts={["soc", "energyToday"]} isNumber />
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
                      organization={organization}
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
  /** What the cells of the column show, one below the other. */
  sorts: Sort[];
  isNumber?: boolean;
}

function Heading({ sorts, isNumber = false }: HeadingProps) {
  const { fleet, newPlant } = useTexts();
  const { sort: current = "name", order = "asc" } = route.useSearch();
  const navigate = route.useNavigate();
  const names: Record<Sort, string> = {
    ...fleet,
    serialNumber: newPlant.serialNumber,
    lastSeenAt: fleet.lastSeen,
    createdAt: fleet.registered,
    alert: fleet.trouble,
    energyToday: fleet.producedToday,
  };
  return (
    <th
      scope="col"
      className={isNumber ? "number" : ""}
      aria-sort={sorts.includes(current) ? (order === "asc" ? "ascending" : "descending") : undefined}
    >
      {sorts.map((sort) => {
        const isCurrent = current === sort;
        const isDescending = isCurrent ? order === "asc" : HIGHEST_FIRST.includes(sort);
        return (
          <button
            key={sort}
            type="button"
            className="sort"
            aria-current={isCurrent && sorts.length > 1}
            onClick={() =>
              navigate({ search: (before) => ({ ...before, sort, order: isDescending ? "desc" : undefined }) })
            }
          >
            {names[sort]}
            <span aria-hidden="true">{isCurrent ? (order === "asc" ? " ▲" : " ▼") : ""}</span>
          </button>
        );
      })}
    </th>
  );
}

interface RowProps {
  plant: FleetPlant;
  index: number;
  now: number;
  organization: SessionOrganization;
  isSelected: boolean;
  onSelect: (id: string, isSelected: boolean) => void;
  /** Called with the element: a long name makes a row higher than others. */
  measure: (row: HTMLTableRowElement | null) => void;
}

function Row({ plant, index, now, organization, isSelected, onSelect, measure }: RowProps) {
  const texts = useTexts();
  const locale = useLocale();
  const { slug, timeZone } = organization;
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
      <PlantHeading slug={slug} plant={plant} />
      <td>
        <PlantState status={plant.status} />
        {/* Why a plant has no new values. */}
        {["SUSPENDED", "DECOMMISSIONED"].includes(plant.lifecycleStatus) && (
          <span className="fine">{texts.lifecycle[plant.lifecycleStatus]}</span>
        )}
      </td>
      <td>
        <Age time={plant.lastSeenAt} now={now} timeZone={timeZone} short />
        <time className="fine" dateTime={plant.createdAt} title={dateTime(plant.createdAt, timeZone, locale)}>
          {date(plant.createdAt, timeZone, locale)}
        </time>
      </td>
      <td className="states">
        <PlantTrouble slug={slug} plant={plant} />
      </td>
      <td className={`number ${stale}`}>
        <Value name={texts.fleet.pv} value={power(powers?.pvKw, locale)} />
        <Value name={texts.fleet.load} value={power(powers?.loadKw, locale)} />
      </td>
      <td className={`number ${stale}`}>
        <Value
          name={texts.fleet.grid}
          value={unsignedPower(powers?.gridKw, locale)}
          word={texts.fleet.gridWord(sign(powers?.gridKw))}
        />
        <Value
          name={texts.fleet.battery}
          value={unsignedPower(powers?.batteryKw, locale)}
          word={texts.fleet.batteryWord(sign(powers?.batteryKw))}
        />
      </td>
      <td className="number">
        <Value name={texts.fleet.soc} value={percent(plant.soc, locale)} className={stale} />
        <Value name={texts.fleet.producedToday} value={energy(energyToday?.produced, locale)} />
      </td>
    </tr>
  );
}

interface ValueProps {
  name: string;
  value: string;
  word?: string;
  className?: string;
}

/** One of the values of a cell. Their names are above them, in the heading. */
function Value({ name, value, word, className }: ValueProps) {
  return (
    <div className={className}>
      <span className="hidden">{name} </span>
      {value} {word && <span className="fine">{word}</span>}
    </div>
  );
}
