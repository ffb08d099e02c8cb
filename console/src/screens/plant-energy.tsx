import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { aligned } from "../format/aligned";
import { energy, percent } from "../format/quantities";
import { isoDate, moved, type Period, rangeOfPeriod, yearBefore } from "../format/zones";
import { useLocale, useTexts } from "../i18n";
import { type EnergyOverTime, energyQuery, useStoredZone } from "../plants";
import { dateOf, PERIODS } from "../searches/energy";
import { knownZone } from "../searches/values";
import { type BarSeries, Bars } from "../ui/bars";
import { Choices } from "../ui/choices";
import { Failure } from "../ui/failure";
import { Legend } from "../ui/swatch";
import { Table } from "../ui/table";
import { TimeZoneChoice } from "../ui/time-zone-choice";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/energy");
const BUCKETS = { day: "1 hour", month: "1 day", year: "1 month" } as const;
/** Where energy came from, and where it went: the two bars of a bucket, which are equally high if everything is measured. */
const SOURCES = ["produced", "imported", "discharged"] as const;
const USES = ["consumed", "exported", "charged"] as const;
const SERIES = [...SOURCES, ...USES];

/** The energy of a plant by hour, day or month in a time zone, beside that of the same period a year before. */
export function PlantEnergyScreen() {
  const texts = useTexts();
  const locale = useLocale();
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const plantZone = useStoredZone(organization, plantId);
  const timeZone = search.timeZone ?? knownZone(plantZone);
  const period = search.period ?? "day";
  const date = dateOf(search, timeZone);
  const range = rangeOfPeriod(timeZone, period, date);
  const dateBefore = yearBefore(date);
  const before = rangeOfPeriod(timeZone, period, dateBefore);
  const bucket = BUCKETS[period];
  const now = useQuery({ ...energyQuery(organization.id, plantId, range, bucket, timeZone), refetchInterval: 60_000 });
  const former = useQuery(energyQuery(organization.id, plantId, before, bucket, timeZone));
  // Nothing is compared with a year in which nothing was measured.
  const compared = former.data?.buckets.some((one) => SERIES.some((name) => one[name] !== null))
    ? former.data
    : undefined;
  const namesOf = (found: EnergyOverTime | undefined) =>
    (found?.buckets ?? []).map(({ start }) => bucketName(period, start, timeZone, locale));
  const [groups, groupsBefore] = [namesOf(now.data), namesOf(compared)];
  const series = SERIES.map((name, index) => ({
    bar: index < SOURCES.length ? 0 : 1,
    label: texts.energy.amounts[name],
    values: now.data?.buckets.map((one) => one[name]) ?? [],
    before: compared && {
      label: texts.energy.before,
      values: aligned(
        groups,
        groupsBefore,
        compared.buckets.map((one) => one[name]),
      ),
    },
  }));
  const go = (by: number) =>
    navigate({ search: (current) => ({ ...current, date: isoDate(moved(period, date, by)) }) });
  return (
    <>
      <div className="toolbar">
        <Choices
          label={texts.energy.period}
          values={PERIODS}
          chosen={period}
          labelOf={(one) => texts.energy.periods[one]}
          onChoose={(one) => navigate({ search: (current) => ({ ...current, period: one }) })}
        />
        <div className="stepper">
          <button type="button" onClick={() => go(-1)} aria-label={texts.energy.earlier}>
            ‹
          </button>
          <strong>{title(period, range.start, timeZone, locale)}</strong>
          <button type="button" onClick={() => go(1)} aria-label={texts.energy.later} disabled={range.end > Date.now()}>
            ›
          </button>
        </div>
        <TimeZoneChoice
          plantZone={plantZone}
          chosen={search.timeZone}
          onChoose={(chosen) => navigate({ search: (current) => ({ ...current, timeZone: chosen }) })}
        />
      </div>
      <Failure error={now.error ?? former.error} />
      {now.data && (
        <figure className="card">
          <Bars label={compared ? texts.energy.comparedChart : texts.energy.chart} groups={groups} series={series} />
          <figcaption>
            <Totals now={now.data} before={compared} />
            <p className="fine">{texts.energy.bars}</p>
            {compared && (
              <p className="fine">{texts.energy.comparison(title(period, before.start, timeZone, locale))}</p>
            )}
            {compared && range.end > Date.now() && <p className="fine">{texts.energy.unfinished}</p>}
            {compared && period === "day" && dateBefore.day !== date.day && (
              <p className="fine">{texts.energy.leapDay}</p>
            )}
            <p className="fine">{texts.energy.zone(timeZone)}</p>
            <Numbers title={texts.energy.values[period]} groups={groups} series={series} />
          </figcaption>
        </figure>
      )}
    </>
  );
}

/** The values of the bars, for those who cannot see or point at them. */
function Numbers({ title, groups, series }: { title: string; groups: string[]; series: BarSeries[] }) {
  const texts = useTexts();
  const locale = useLocale();
  const columns = series.flatMap(({ label, values, before }) => [
    { label, values },
    ...(before ? [{ label: `${label}: ${before.label}`, values: before.values }] : []),
  ]);
  return (
    <details>
      <summary>{title}</summary>
      <Table
        label={title}
        headings={[texts.energy.period, ...columns.map(({ label }) => ({ label, kind: "number" as const }))]}
      >
        {groups.map((name, index) => (
          // The hour that repeats when clocks change has the same name.
          <tr key={`${index} ${name}`}>
            <th scope="row">{name}</th>
            {columns.map(({ label, values }) => (
              <td key={label} className="number">
                {energy(values[index], locale)}
              </td>
            ))}
          </tr>
        ))}
      </Table>
    </details>
  );
}

function Totals({ now, before }: { now: EnergyOverTime; before: EnergyOverTime | undefined }) {
  const texts = useTexts();
  const locale = useLocale();
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{texts.energy.energy}</th>
          <th scope="col" className="number">
            {texts.energy.now}
          </th>
          {before && (
            <th scope="col" className="number">
              {texts.energy.before}
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {SERIES.map((name, index) => (
          <tr key={name}>
            <th scope="row">
              <Legend index={index}>{texts.energy.amounts[name]}</Legend>
            </th>
            <td className="number">{energy(now.total[name], locale)}</td>
            {before && <td className="number">{energy(before.total[name], locale)}</td>}
          </tr>
        ))}
        {(["selfConsumption", "selfSufficiency"] as const).map((name) => (
          <tr key={name}>
            <th scope="row">
              <Legend index={null}>{texts.energy.shares[name]}</Legend>
            </th>
            <td className="number">{percent(now.total[name], locale)}</td>
            {before && <td className="number">{percent(before.total[name], locale)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function title(period: Period, start: number, timeZone: string, locale: string): string {
  const shown: Record<Period, Intl.DateTimeFormatOptions> = {
    day: { dateStyle: "full" },
    month: { month: "long", year: "numeric" },
    year: { year: "numeric" },
  };
  return new Intl.DateTimeFormat(locale, { timeZone, ...shown[period] }).format(start);
}

/** Return the name of a bucket: an hour, a day of the month, or a month. */
function bucketName(period: Period, start: string, timeZone: string, locale: string): string {
  const shown: Record<Period, Intl.DateTimeFormatOptions> = {
    day: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
    month: { day: "numeric" },
    year: { month: "short" },
  };
  return new Intl.DateTimeFormat(locale, { timeZone, ...shown[period] }).format(new Date(start));
}
