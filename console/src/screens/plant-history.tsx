import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Suspense, useMemo } from "react";
import { meanIn, totalsOf } from "../format/thinned";
import { dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { fullName, type MetricName, useMetricNames } from "../metrics";
import {
  type Columns,
  columnsQuery,
  drawnColumns,
  latestQuery,
  MOST_UNITS,
  type Point,
  type Range,
  useStoredZone,
} from "../plants";
import { fittingBuckets, type HistorySearch, LAST, rangeOf, WIDTHS } from "../searches/history";
import { knownZone } from "../searches/values";
import { Chart } from "../ui/chart";
import { Choices } from "../ui/choices";
import { Failure } from "../ui/failure";
import { SelectField } from "../ui/fields";
import { lazyPart, loadAnew } from "../ui/lazy-part";
import { useNow } from "../ui/now";
import { Picker } from "../ui/picker";
import { SignedNumber } from "../ui/signed-number";
import { Legend } from "../ui/swatch";
import { TimeZoneChoice } from "../ui/time-zone-choice";
import { EventList } from "./plant-event-list";
import { usePlantEvents } from "./plant-events";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/history");
const MetricsForm = lazyPart(async () => (await import("./metrics-form")).MetricsForm);
const RangeForm = lazyPart(async () => (await import("./range-form")).RangeForm);
const POINTS = 600;
/** How many powers of a role are shown before a user has chosen: together at most six, as a chart has. */
const FIRST = [
  ["grid_power", 1],
  ["load_power", 1],
  ["pv_power", 2],
  ["battery_power", 2],
] as const;
const SUMMARY = ["minimum", "average", "maximum"] as const;

/** Metrics of a plant over time. Range, metrics, the width of buckets and the time zone are in the URL, so that a link shows the same. */
export function PlantHistoryScreen() {
  const texts = useTexts();
  const now = useNow(60);
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const plantZone = useStoredZone(organization, plantId);
  const search = route.useSearch();
  const timeZone = search.timeZone ?? knownZone(plantZone);
  const navigate = route.useNavigate();
  const latest = useQuery(latestQuery(organization.id, plantId));
  const nameOf = useMetricNames(organization.id, plantId, texts.templates.labelOf);
  const metrics = search.metrics ?? firstChoice(latest.data ?? [], nameOf);
  const range = useMemo(() => rangeOf(search, now), [search, now]);
  // A width that does not fit another range is automatic there.
  const fitting = fittingBuckets(range, metrics.length);
  const bucket = fitting.find((one) => one === search.bucket);
  const events = usePlantEvents(organization.id, plantId, range, timeZone, nameOf);
  const columns = useQuery({
    ...columnsQuery(organization.id, plantId, metrics, range, bucket === undefined ? { points: POINTS } : { bucket }),
    placeholderData: keepPreviousData,
  });
  const save = useMutation({
    mutationFn: async (shown: Columns) => {
      const { saveColumns } = await import("../history-csv").catch(loadAnew);
      saveColumns(plantId, shown, timeZone);
    },
  });
  const drawn = useMemo(() => columns.data && drawnColumns(columns.data), [columns.data]);
  // Without metrics nothing is requested, and the query keeps what it had before.
  const isShown = metrics.length > 0;
  const showTimes = (times: Pick<HistorySearch, "last" | "from" | "to">) =>
    navigate({ search: (before) => ({ ...before, last: undefined, from: undefined, to: undefined, ...times }) });
  return (
    <>
      <div className="toolbar">
        <Choices
          label={texts.history.range}
          values={LAST}
          chosen={search.from === undefined ? (search.last ?? null) : null}
          labelOf={(last) => texts.history.last[last]}
          onChoose={(last) => showTimes({ last })}
        />
        <RangePicker
          // Another range closes it.
          key={`${search.from} ${search.to} ${timeZone}`}
          range={range}
          isChosen={search.from !== undefined}
          timeZone={timeZone}
          onChoose={showTimes}
        />
        <Picker label={texts.history.metrics(metrics.length)}>
          <Suspense>
            <MetricsForm
              latest={latest.data ?? []}
              chosen={metrics}
              nameOf={nameOf}
              onChoose={(chosen) => navigate({ search: (before) => ({ ...before, metrics: chosen }) })}
            />
          </Suspense>
        </Picker>
        <SelectField
          label={texts.history.width}
          values={fitting}
          labels={texts.history.widths}
          value={bucket ?? ""}
          onChange={({ target }) =>
            navigate({
              search: (before) => ({ ...before, bucket: fitting.find((one) => one === target.value) }),
            })
          }
        >
          <option value="">{texts.history.automatic}</option>
        </SelectField>
        <TimeZoneChoice
          plantZone={plantZone}
          chosen={search.timeZone}
          onChoose={(chosen) => navigate({ search: (before) => ({ ...before, timeZone: chosen }) })}
        />
        {isShown && columns.data && columns.data.times.length > 0 && (
          <button type="button" onClick={() => save.mutate(columns.data)}>
            {texts.history.save}
          </button>
        )}
      </div>
      <Failure error={latest.error ?? columns.error ?? save.error} />
      {latest.data && !isShown && (
        <div className="card empty">
          <h2>{latest.data.length === 0 ? texts.plant.noValues : texts.history.noMetric}</h2>
          <p>{latest.data.length === 0 ? texts.plant.noValuesHelp : texts.history.noMetricHelp}</p>
        </div>
      )}
      {isShown && columns.data && drawn && (
        <figure className="card">
          <Chart
            columns={drawn}
            timeZone={timeZone}
            label={texts.history.chart(drawn.columns.map(({ metric }) => fullName(nameOf(metric))))}
            marks={events.marks}
            onZoom={showTimes}
          />
          <figcaption>
            <Summary columns={columns.data} drawn={drawn} nameOf={nameOf} />
            {drawn.columns.length < columns.data.columns.length && (
              <p className="fine">{texts.history.notDrawn(MOST_UNITS)}</p>
            )}
            <p className="fine">{texts.history.bucket(texts.history.widths[columns.data.bucket], timeZone)}</p>
            {columns.data.bucket.includes("day") && timeZone !== "UTC" && (
              <p className="fine">{texts.history.daysOfUtc}</p>
            )}
          </figcaption>
        </figure>
      )}
      <Suspense>
        <EventList events={events} timeZone={timeZone} />
      </Suspense>
    </>
  );
}

interface RangePickerProps {
  range: Range;
  /** Whether the range is one between two times, and not the last hours. */
  isChosen: boolean;
  timeZone: string;
  onChoose: (range: Range) => void;
}

/** Two times, by the clocks of a zone, for what is older than the last days, and for who does not drag. */
function RangePicker({ range, isChosen, timeZone, onChoose }: RangePickerProps) {
  const texts = useTexts();
  const locale = useLocale();
  return (
    <Picker
      label={
        isChosen
          ? `${dateTime(range.from, timeZone, locale)} – ${dateTime(range.to, timeZone, locale)}`
          : texts.history.other
      }
    >
      <Suspense>
        <RangeForm range={range} timeZone={timeZone} onChoose={onChoose} />
      </Suspense>
    </Picker>
  );
}

interface SummaryProps {
  columns: Columns & { range: Range };
  /** Those that the chart shows. */
  drawn: Columns;
  nameOf: (metric: string) => MetricName;
}

/** What the chart shows, in numbers: also for readers who cannot see it. Metrics that it does not show have no colour. */
function Summary({ columns, drawn, nameOf }: SummaryProps) {
  const texts = useTexts();
  const { range, times, bucket } = columns;
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{texts.plant.metric}</th>
          {SUMMARY.map((name) => (
            <th key={name} scope="col" className="number">
              {texts.history[name]}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {columns.columns.map((column) => {
          const { metric, unit } = column;
          const index = drawn.columns.indexOf(column);
          const name = nameOf(metric);
          const totals = [
            totalsOf(column.min)?.least,
            meanIn(range, times, WIDTHS[bucket], column.average),
            totalsOf(column.max)?.greatest,
          ];
          return (
            <tr key={`${metric} ${unit}`}>
              <th scope="row" title={metric}>
                <Legend index={index < 0 ? null : index}>{fullName(name)}</Legend>
              </th>
              {SUMMARY.map((total, place) => (
                <td key={total} className="number">
                  <SignedNumber signal={name.signal} value={totals[place] ?? null} unit={unit} isSigned />
                </td>
              ))}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** Return what is shown before a user has chosen: the powers of the plant by their roles; without roles, by their names. */
function firstChoice(points: Point[], nameOf: (metric: string) => MetricName): string[] {
  const metrics = points.map(({ metric }) => metric);
  const powers = FIRST.flatMap(([role, most]) =>
    metrics.filter((metric) => nameOf(metric).signal?.role === role).slice(0, most),
  );
  const named = metrics.filter((metric) => /(^|[._])power$/.test(metric)).slice(0, 3);
  return [powers, named].find((found) => found.length > 0) ?? metrics.slice(0, 1);
}
