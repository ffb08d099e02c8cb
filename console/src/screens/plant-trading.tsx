import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";
import { energy, number, percent, power, sign } from "../format/quantities";
import { clock, dateTime } from "../format/times";
import { localText, parseLocal } from "../format/zones";
import { useLocale, useTexts } from "../i18n";
import { type Range, useTimeZone } from "../plants";
import { COMMAND_TYPES, HOURS } from "../searches/trading";
import { useShownTheme } from "../theme";
import {
  adherenceQuery,
  columnsOf,
  commandLogQuery,
  contentOf,
  type LogEntry,
  lastHours,
  pastQuery,
  type SiteConfiguration,
  siteQuery,
} from "../trading";
import { Age } from "../ui/age";
import { Chart, colourOf } from "../ui/chart";
import { Failure } from "../ui/failure";
import { GridPower } from "../ui/grid-power";
import { useNow } from "../ui/now";
import { Pager } from "../ui/pager";
import { CommandState, type CommandStatus } from "../ui/state";
import { Table } from "../ui/table";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/trading");
const KILO = 1000;
/** Steps of a schedule that are shown at once. */
const MOST_SHOWN = 24;
/** Milliseconds. A shorter range has no whole quarter of an hour. */
const LEAST_ZOOM = 1_800_000;

/** A site: what partners have set, its schedule now or at an earlier time, how its power followed, and what was requested. */
export function PlantTradingScreen() {
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const timeZone = useTimeZone(organization.id, plantId);
  const site = useQuery(siteQuery(organization.id, plantId));
  return (
    <>
      <Failure error={site.error} />
      {site.data && <Present site={site.data} timeZone={timeZone} />}
      <Schedule timeZone={timeZone} />
      <AdherenceOfSite timeZone={timeZone} />
      <CommandLog timeZone={timeZone} />
    </>
  );
}

/** What partners have set, with the limits that their commands must keep to. */
function Present({ site, timeZone }: { site: SiteConfiguration; timeZone: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const { modeOverride: override, fallback, constraints } = site;
  const limits: [string, string][] = [
    [texts.trading.limits.import, watts(constraints.importLimitKw, locale)],
    [texts.trading.limits.export, watts(constraints.exportLimitKw, locale)],
    [texts.trading.limits.charge, watts(constraints.chargeMaxKw, locale)],
    [texts.trading.limits.discharge, watts(constraints.dischargeMaxKw, locale)],
    [texts.trading.limits.socMin, percent(constraints.socMinPct, locale)],
    [texts.trading.limits.socMax, percent(constraints.socMaxPct, locale)],
  ];
  return (
    <section className="card" aria-labelledby="present">
      <h2 id="present">{texts.trading.present}</h2>
      <dl className="details block">
        <Fact name={texts.trading.mode}>
          {texts.trading.modes[site.operatingMode]}
          {override !== null && (
            <span className="fine">
              {" "}
              {override.expiresAt === null
                ? texts.trading.endless
                : `${texts.trading.until} ${dateTime(override.expiresAt, timeZone, locale)}`}
            </span>
          )}
        </Fact>
        <Fact name={texts.trading.fallback}>
          {fallback.mode === null || fallback.afterSeconds === null
            ? texts.trading.none
            : `${texts.trading.modes[fallback.mode]}, ${texts.trading.afterSilence(fallback.afterSeconds)}`}
        </Fact>
        <Fact name={texts.trading.open}>{number(site.pendingCommands.length, locale)}</Fact>
        {limits.map(([name, value]) => (
          <Fact key={name} name={name}>
            {value}
          </Fact>
        ))}
      </dl>
      <p className="fine">{texts.trading.byPartners}</p>
    </section>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** The schedule and the plan now or at an earlier time. */
function Schedule({ timeZone }: { timeZone: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(10);
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const { at } = route.useSearch();
  const navigate = route.useNavigate();
  const past = useQuery(pastQuery(organization.id, plantId, at));
  const moment = at === undefined ? now : Date.parse(at);
  const batteryPower = (kilowatts: number) =>
    `${watts(Math.abs(kilowatts), locale)} ${texts.fleet.batteryWord(sign(kilowatts))}`.trim();
  const { schedule, plan } = past.data ?? { schedule: null, plan: null };
  return (
    <section className="block" aria-labelledby="schedule">
      <div className="toolbar">
        <h2 id="schedule" className="grow">
          {texts.trading.schedule}
        </h2>
        <label>
          {texts.trading.at(timeZone)}
          <input
            type="datetime-local"
            value={localText(timeZone, moment)}
            max={localText(timeZone, now)}
            onChange={({ target }) => {
              const time = parseLocal(timeZone, target.value);
              if (time === undefined || time > Date.now()) return;
              navigate({ search: (before) => ({ ...before, at: new Date(time).toISOString() }), replace: true });
            }}
          />
        </label>
        {at !== undefined && (
          <button
            type="button"
            onClick={() => navigate({ search: (before) => ({ ...before, at: undefined }), replace: true })}
          >
            {texts.trading.now}
          </button>
        )}
      </div>
      <Failure error={past.error} />
      {past.data !== undefined && schedule === null && <p className="fine">{texts.trading.noSchedule}</p>}
      {schedule !== null && (
        <>
          <p className="fine">
            {texts.trading.revision(schedule.scheduleId, schedule.revision)}
            {past.data?.scheduleSetAt && ` ${texts.trading.setAt(dateTime(past.data.scheduleSetAt, timeZone, locale))}`}
          </p>
          <details open={schedule.intervals.length <= MOST_SHOWN}>
            <summary>{texts.trading.steps(schedule.intervals.length)}</summary>
            <Table headings={[texts.trading.from, texts.trading.to, { label: texts.trading.power, kind: "number" }]}>
              {schedule.intervals.map(({ start, durationSeconds, powerKw }) => {
                const begin = Date.parse(start);
                const end = begin + durationSeconds * KILO;
                const isCurrent = begin <= moment && moment < end;
                return (
                  <tr key={start} className={isCurrent ? "current" : undefined} aria-current={isCurrent || undefined}>
                    <th scope="row">{dateTime(start, timeZone, locale)}</th>
                    <td>{dateTime(new Date(end).toISOString(), timeZone, locale)}</td>
                    <td className="number">
                      <GridPower kilowatts={powerKw} />
                    </td>
                  </tr>
                );
              })}
            </Table>
          </details>
        </>
      )}
      {plan !== null && (
        <>
          <h3>{texts.trading.plan}</h3>
          <p className="fine">{texts.trading.planSent(dateTime(plan.sentAt, timeZone, locale))}</p>
          <Table
            headings={[
              texts.trading.fromUtc,
              texts.trading.toUtc,
              { label: texts.fleet.battery, kind: "number" },
              { label: texts.fleet.soc, kind: "number" },
            ]}
          >
            {plan.timeConfigs.map((block) => (
              <tr key={block.from}>
                <th scope="row">{block.from}</th>
                <td>{block.to}</td>
                <td className="number">
                  {batteryPower(block.pBatMin)} – {batteryPower(block.pBatMax)}
                </td>
                <td className="number">
                  {percent(block.socMin, locale)} – {percent(block.socMax, locale)}
                </td>
              </tr>
            ))}
          </Table>
        </>
      )}
    </section>
  );
}

/** Ordered against measured power. */
function AdherenceOfSite({ timeZone }: { timeZone: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(60);
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const { hours = 24 } = route.useSearch();
  const navigate = route.useNavigate();
  const [zoom, setZoom] = useState<Range | null>(null);
  const range = zoom ?? lastHours(hours, now);
  const adherence = useQuery(adherenceQuery(organization.id, plantId, range));
  const { ordered, measured } = texts.trading;
  const columns = useMemo(
    () => adherence.data && columnsOf(adherence.data, ordered, measured),
    [adherence.data, ordered, measured],
  );
  const { data } = adherence;
  const isKnown = data?.quarters.some(({ orderedKw, measuredKw }) => orderedKw !== null || measuredKw !== null);
  return (
    <section className="block" aria-labelledby="adherence">
      <div className="toolbar">
        <h2 id="adherence" className="grow">
          {texts.trading.adherence}
        </h2>
        <fieldset className="choices">
          <legend className="hidden">{texts.history.range}</legend>
          {HOURS.map((one) => (
            <button
              key={one}
              type="button"
              aria-pressed={zoom === null && one === hours}
              onClick={() => {
                setZoom(null);
                navigate({ search: (before) => ({ ...before, hours: one }), replace: true });
              }}
            >
              {texts.trading.hours(one)}
            </button>
          ))}
        </fieldset>
      </div>
      <Failure error={adherence.error} />
      {data !== undefined && !isKnown && <p className="fine">{texts.trading.noAdherence}</p>}
      {data !== undefined && columns !== undefined && isKnown && (
        <figure className="card">
          <Chart
            columns={columns}
            timeZone={timeZone}
            label={texts.history.chart([ordered, measured])}
            onZoom={(chosen) => {
              if (Date.parse(chosen.to) - Date.parse(chosen.from) >= LEAST_ZOOM) setZoom(chosen);
            }}
          />
          <figcaption className="block">
            <dl className="facts">
              <Amount name={ordered} series={0}>
                {signedEnergy(data.comparedQuarters === 0 ? null : data.orderedKwh, locale, texts.fleet.gridWord)}
              </Amount>
              <Amount name={texts.trading.delivered} series={1}>
                {signedEnergy(data.comparedQuarters === 0 ? null : data.deliveredKwh, locale, texts.fleet.gridWord)}
              </Amount>
              <Amount name={texts.trading.deviation}>{watts(data.meanDeviationKw, locale)}</Amount>
            </dl>
            <p className="fine">{texts.trading.compared(data.comparedQuarters, timeZone)}</p>
            <details>
              <summary>{texts.trading.numbers}</summary>
              <Table
                headings={[
                  texts.trading.from,
                  { label: ordered, kind: "number" },
                  { label: measured, kind: "number" },
                  { label: texts.trading.difference, kind: "number" },
                ]}
              >
                {data.quarters.map((quarter) => (
                  <tr key={quarter.time}>
                    <th scope="row">{dateTime(quarter.time, timeZone, locale)}</th>
                    <td className="number">
                      <GridPower kilowatts={quarter.orderedKw} />
                    </td>
                    <td className="number">
                      <GridPower kilowatts={quarter.measuredKw} />
                    </td>
                    <td className="number">{watts(quarter.deviationKw, locale)}</td>
                  </tr>
                ))}
              </Table>
            </details>
          </figcaption>
        </figure>
      )}
    </section>
  );
}

interface AmountProps {
  name: string;
  /** Index of its line in the chart. */
  series?: number;
  children: ReactNode;
}

function Amount({ name, series, children }: AmountProps) {
  const theme = useShownTheme();
  return (
    <div>
      <dt className="fine">
        {series !== undefined && (
          <svg className="swatch" viewBox="0 0 12 12" aria-hidden="true">
            <rect width="12" height="12" rx="3" fill={colourOf(series, theme)} />
          </svg>
        )}
        {name}
      </dt>
      <dd>
        <strong>{children}</strong>
      </dd>
    </div>
  );
}

/** What partners requested, and what became of it. */
function CommandLog({ timeZone }: { timeZone: string }) {
  const texts = useTexts();
  const now = useNow(10);
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const log = useQuery(commandLogQuery(organization.id, plantId, search));
  return (
    <section className="block" aria-labelledby="log">
      <div className="toolbar">
        <h2 id="log" className="grow">
          {texts.trading.log}
        </h2>
        <label>
          {texts.trading.command}
          <select
            value={search.type ?? ""}
            onChange={({ target }) =>
              navigate({
                search: ({ at, hours }) => ({ at, hours, type: COMMAND_TYPES.find((one) => one === target.value) }),
                replace: true,
              })
            }
          >
            <option value="">{texts.fleet.all}</option>
            {COMMAND_TYPES.map((one) => (
              <option key={one} value={one}>
                {texts.trading.types[one]}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Failure error={log.error} />
      {log.data?.meta.total === 0 && <p className="fine">{texts.trading.noCommands}</p>}
      {log.data !== undefined && log.data.meta.total > 0 && (
        <Table headings={[texts.trading.command, texts.trading.content, texts.trading.received, texts.trading.outcome]}>
          {log.data.data.map((entry) => (
            <Entry key={entry.id} entry={entry} now={now} timeZone={timeZone} />
          ))}
        </Table>
      )}
      <Pager meta={log.data?.meta} onPage={(page) => navigate({ search: (before) => ({ ...before, page }) })} />
    </section>
  );
}

function Entry({ entry, now, timeZone }: { entry: LogEntry; now: number; timeZone: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const type = COMMAND_TYPES.find((one) => one === entry.commandType);
  const { rejectionReason: reason } = entry;
  const reasons: Record<string, string> = texts.trading.reasons;
  return (
    <tr>
      <th scope="row">{type === undefined ? texts.trading.unreadable : texts.trading.types[type]}</th>
      <td className="wrap content">
        {contentOf(entry).map(([name, value]) => (
          <span key={name} className="fine">
            {name}: <code>{value.length > 200 ? `${value.slice(0, 200)}…` : value}</code>{" "}
          </span>
        ))}
      </td>
      <td>
        <Age time={entry.createdAt} now={now} timeZone={timeZone} short />
      </td>
      <td>
        <CommandState
          status={entry.status as CommandStatus}
          word={reason === null || reason === "PLANT_REJECTED" ? undefined : texts.trading.refused}
        />
        {entry.executedAt !== null && <span className="fine"> {clock(entry.executedAt, timeZone, locale)}</span>}
        {reason !== null && <span className="fine">{reasons[reason] ?? reason}</span>}
      </td>
    </tr>
  );
}

/** Return kilowatts with a fitting unit. */
function watts(kilowatts: number | null, locale: string): string {
  return power(kilowatts === null ? null : kilowatts * KILO, locale);
}

function signedEnergy(kilowattHours: number | null, locale: string, word: (sign: -1 | 0 | 1) => string): string {
  const amount = energy(kilowattHours === null ? null : Math.abs(kilowattHours) * KILO, locale);
  return `${amount} ${word(sign(kilowattHours))}`.trim();
}
