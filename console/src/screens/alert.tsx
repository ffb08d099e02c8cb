import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { changeAlerts } from "../alert-changes";
import { useAlertTitles, useSharedNames } from "../alert-texts";
import { measured } from "../alert-title";
import { type Alert, alertQuery } from "../alerts";
import { exact } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { columnsQuery, type Range, useTimeZone } from "../plants";
import { mayAct } from "../session";
import { Chart } from "../ui/chart";
import type { Level, Mark } from "../ui/chart-overlay";
import { Fact } from "../ui/fact";
import { Failure } from "../ui/failure";
import { Moment } from "../ui/moment";
import { useNow } from "../ui/now";
import { Section } from "../ui/section";
import { AlertState } from "../ui/state";
import { SubPageHead } from "../ui/sub-page-head";

const route = getRouteApi("/inside/o/$slug/alerts/$alertId");
const HOUR = 3_600_000;
const MINUTE = 60_000;
const POINTS = 400;

/** An alert: what raised it, who works on it, and its metric around the moment. */
export function AlertScreen() {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const { user, organization } = route.useRouteContext();
  const { alertId } = route.useParams();
  const alert = useQuery(alertQuery(organization.id, alertId));
  const titleOf = useAlertTitles();
  const change = useMutation({
    mutationFn: (to: "acknowledge" | "resolve") => changeAlerts(organization.id, to, [alertId]),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: [organization.id] }),
  });
  const status = alert.data?.status;
  return (
    <>
      <SubPageHead
        title={alert.data ? `${titleOf(alert.data)} · ${alert.data.plantName}` : texts.alerts.alert}
        organization={organization}
      >
        <Link to="/o/$slug/alerts" params={{ slug: organization.slug }}>
          {texts.alerts.title}
        </Link>
      </SubPageHead>
      <Failure error={alert.error ?? change.error} />
      {mayAct(user, organization, "OPERATOR") && status !== undefined && status !== "RESOLVED" && (
        <div className="toolbar">
          {status === "ACTIVE" && (
            <button type="button" onClick={() => change.mutate("acknowledge")} disabled={change.isPending}>
              {texts.alerts.acknowledge}
            </button>
          )}
          <button type="button" onClick={() => change.mutate("resolve")} disabled={change.isPending}>
            {texts.alerts.resolve}
          </button>
        </div>
      )}
      {alert.data && <Details alert={alert.data} />}
      {alert.data && <Around alert={alert.data} />}
    </>
  );
}

function Details({ alert }: { alert: Alert }) {
  const texts = useTexts();
  const locale = useLocale();
  const { organization } = route.useRouteContext();
  const { slug } = organization;
  const timeZone = useTimeZone(organization, alert.plantId);
  const metric = useSharedNames()(alert.metric, true);
  const at = (time: string) => <Moment time={time} timeZone={timeZone} />;
  const { condition, threshold, ruleId, ruleName, acknowledgedAt, acknowledgedByName, resolvedAt } = alert;
  return (
    <dl className="card details">
      <Fact name={texts.alerts.severity}>
        <AlertState severity={alert.severity} />
      </Fact>
      <Fact name={texts.alerts.status}>{texts.alerts.states[alert.status]}</Fact>
      <Fact name={texts.fleet.name}>
        <Link to="/o/$slug/plants/$plantId" params={{ slug, plantId: alert.plantId }}>
          {alert.plantName}
        </Link>
      </Fact>
      <Fact name={texts.plant.value}>{`${metric} ${measured(alert, locale)}`}</Fact>
      <Fact name={texts.alerts.measured}>{at(alert.measuredAt)}</Fact>
      <Fact name={texts.alerts.raised}>{at(alert.createdAt)}</Fact>
      {condition !== null && threshold !== null && (
        <Fact name={texts.rules.condition}>
          {texts.rules.conditions[condition](metric, exact(threshold, alert.unit, locale))}
        </Fact>
      )}
      {ruleId !== null && (
        <Fact name={texts.rules.rule}>
          <Link to="/o/$slug/rules/$ruleId" params={{ slug, ruleId }}>
            {ruleName ?? ruleId}
          </Link>
        </Fact>
      )}
      {acknowledgedAt !== null && (
        <Fact name={texts.alerts.states.ACKNOWLEDGED}>
          {at(acknowledgedAt)} {acknowledgedByName}
        </Fact>
      )}
      {resolvedAt !== null && <Fact name={texts.alerts.states.RESOLVED}>{at(resolvedAt)}</Fact>}
    </dl>
  );
}

/** The metric of an alert for an hour before and after it was measured. */
function Around({ alert }: { alert: Alert }) {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(60);
  const { organization } = route.useRouteContext();
  const { plantId, metric, severity, measuredAt, createdAt, threshold, unit } = alert;
  const name = useSharedNames()(metric, true);
  const timeZone = useTimeZone(organization, plantId);
  const range = aroundOf(measuredAt, now);
  const columns = useQuery({
    ...columnsQuery(organization.id, plantId, [metric], range, { points: POINTS }),
    placeholderData: keepPreviousData,
  });
  const marks = useMemo(
    () =>
      [
        { label: texts.alerts.measured, time: measuredAt },
        { label: texts.alerts.raised, time: createdAt },
      ]
        // A value that came late raised it later than the chart ends.
        .filter(({ time }) => Date.parse(time) <= Date.parse(range.to))
        .map((one): Mark => ({ ...one, kind: "alert", severity, isLabelled: true })),
    [measuredAt, createdAt, range.to, severity, texts],
  );
  const levels = useMemo(
    (): Level[] =>
      threshold === null
        ? []
        : [{ value: threshold, unit, label: `${texts.rules.threshold} ${exact(threshold, unit, locale)}` }],
    [threshold, unit, texts, locale],
  );
  return (
    <Section title={texts.alerts.around(name, Date.parse(range.to) < Date.parse(measuredAt) + HOUR)} isCard>
      <Failure error={columns.error} />
      {columns.data && (
        <Chart
          columns={columns.data}
          timeZone={timeZone}
          label={texts.history.chart([name])}
          marks={marks}
          levels={levels}
        />
      )}
      <Link
        to="/o/$slug/plants/$plantId/history"
        params={{ slug: organization.slug, plantId }}
        search={{ ...range, metrics: [metric] }}
      >
        {texts.alerts.toHistory}
      </Link>
    </Section>
  );
}

/** Return the range of an hour before and after a time, but not beyond the minute of the present. */
function aroundOf(time: string, now: number): Range {
  const moment = Date.parse(time);
  const to = Math.min(moment + HOUR, Math.ceil(now / MINUTE) * MINUTE);
  return { from: new Date(moment - HOUR).toISOString(), to: new Date(to).toISOString() };
}
