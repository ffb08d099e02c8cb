import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { measured } from "../alert-title";
import { count, exact } from "../format/quantities";
import { dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { columnsQuery, latestQuery, plantQuery, type Range, useTimeZone } from "../plants";
import { type BackTest, type NewAlertRule, watchedMetrics } from "../rules";
import { Chart } from "../ui/chart";
import type { Level } from "../ui/chart-overlay";
import { Failure } from "../ui/failure";
import { Moment } from "../ui/moment";
import { Section } from "../ui/section";
import { ListTable } from "../ui/table";

const route = getRouteApi("/inside/o/$slug");

/** A rule that was applied to the values of a range. */
export interface TestedRule {
  rule: NewAlertRule;
  range: Range;
  result: BackTest;
}

interface Props {
  organizationId: string;
  tested: TestedRule;
}

const POINTS = 600;
const MOST_METRICS = 6;
const MOST_LISTED = 100;
/** Plants of which one can be chosen. The name of each is read by a request, and again whenever the plant sends values. */
const MOST_PLANTS = 20;

/** What a rule would have raised: in numbers, and of one plant drawn over its values and listed. */
export function BackTestResult({ organizationId, tested: { rule, range, result } }: Props) {
  const texts = useTexts();
  const locale = useLocale();
  const [chosen, setChosen] = useState<string | null>(null);
  const counts = new Map<string, number>();
  for (const { plantId } of result.alerts) counts.set(plantId, (counts.get(plantId) ?? 0) + 1);
  const plants = [...counts].sort(([, one], [, other]) => other - one).slice(0, MOST_PLANTS);
  const isListed = plants.some(([id]) => id === chosen);
  const plantId = rule.plantId ?? (isListed && chosen !== null ? chosen : plants[0]?.[0]);
  return (
    <Section title={texts.rules.tested} isCard>
      <p>{texts.rules.conditions[rule.condition](rule.metric, exact(rule.threshold, rule.unit ?? null, locale))}</p>
      <p role="status">
        <strong>{texts.rules.wouldRaise(count(result.alertCount, locale), result.alertCount)}</strong>{" "}
        {texts.rules.ofValues(count(result.matches, locale), count(result.points, locale))}
      </p>
      {result.alertCount > result.alerts.length && (
        <p className="fine">{texts.rules.firstListed(count(result.alerts.length, locale))}</p>
      )}
      {counts.size > 1 && (
        <label>
          {texts.rules.shownPlant}
          <select value={plantId} onChange={({ target }) => setChosen(target.value)}>
            {plants.map(([id, alerts]) => (
              <PlantOption key={id} organizationId={organizationId} plantId={id} alerts={alerts} />
            ))}
          </select>
        </label>
      )}
      {counts.size > MOST_PLANTS && <p className="fine">{texts.rules.mostAlerts(MOST_PLANTS)}</p>}
      {plantId === undefined && result.points > 0 && <p className="fine">{texts.rules.choosePlant}</p>}
      {plantId !== undefined && (
        <PlantBackTest
          key={plantId}
          organizationId={organizationId}
          plantId={plantId}
          tested={{ rule, range, result }}
        />
      )}
    </Section>
  );
}

function PlantOption({ organizationId, plantId, alerts }: { organizationId: string; plantId: string; alerts: number }) {
  const texts = useTexts();
  const locale = useLocale();
  const plant = useQuery({ ...plantQuery(organizationId, plantId, "plant-name"), staleTime: 60_000 });
  return (
    <option
      value={plantId}
    >{`${plant.data?.name ?? plantId}: ${texts.alerts.count(count(alerts, locale), alerts)}`}</option>
  );
}

function PlantBackTest({ organizationId, plantId, tested: { rule, range, result } }: Props & { plantId: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const { organization } = route.useRouteContext();
  const timeZone = useTimeZone(organization, plantId);
  const alerts = useMemo(() => result.alerts.filter((alert) => alert.plantId === plantId), [result, plantId]);
  const latest = useQuery(latestQuery(organizationId, plantId));
  const raised = [...new Set(alerts.map(({ metric }) => metric))];
  const watched = watchedMetrics(rule.metric, latest.data?.map(({ metric }) => metric) ?? []);
  const metrics = [...new Set([...raised, ...watched])].slice(0, MOST_METRICS);
  const columns = useQuery({
    ...columnsQuery(organizationId, plantId, metrics, range, { points: POINTS }),
    enabled: latest.data !== undefined && metrics.length > 0,
  });
  const unitOf = (name: string) => columns.data?.columns.find(({ metric }) => metric === name)?.unit ?? null;
  const levels = useMemo(() => levelsOf(rule, texts.rules, locale), [rule, texts, locale]);
  const marks = useMemo(
    () =>
      alerts.map(({ time, metric }) => ({
        kind: "alert" as const,
        time,
        label: `${metric} · ${dateTime(time, timeZone, locale)}`,
      })),
    [alerts, timeZone, locale],
  );
  return (
    <>
      <Failure error={latest.error ?? columns.error} />
      {columns.data && (
        <Chart
          columns={columns.data}
          timeZone={timeZone}
          label={texts.rules.chart(metrics)}
          marks={marks}
          levels={levels}
        />
      )}
      <ListTable
        rows={alerts.slice(0, MOST_LISTED)}
        label={texts.alerts.title}
        headings={[
          texts.alerts.raised,
          texts.plant.metric,
          { label: texts.plant.value, kind: "number" },
          texts.rules.cleared,
        ]}
      >
        {({ metric, time, value, clearedAt }) => (
          <tr key={`${metric} ${time}`}>
            <th scope="row">
              <Moment time={time} timeZone={timeZone} />
            </th>
            <td>{metric}</td>
            <td className="number">{measured({ value, threshold: rule.threshold, unit: unitOf(metric) }, locale)}</td>
            <td>{clearedAt === null ? "–" : <Moment time={clearedAt} timeZone={timeZone} />}</td>
          </tr>
        )}
      </ListTable>
      {alerts.length > MOST_LISTED && <p className="fine">{texts.rules.firstListed(count(MOST_LISTED, locale))}</p>}
    </>
  );
}

function levelsOf(rule: NewAlertRule, texts: { threshold: string; clear: string }, locale: string): Level[] {
  const unit = rule.unit ?? null;
  const level = (value: number, label: string) => ({ value, unit, label: `${label} ${exact(value, unit, locale)}` });
  return [
    level(rule.threshold, texts.threshold),
    ...(rule.clearThreshold == null ? [] : [level(rule.clearThreshold, texts.clear)]),
  ];
}
