import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { alertTitle } from "../alert-title";
import { type Alert, alertsInRangeQuery } from "../alerts";
import { type Command, commandName, commandsInRangeQuery } from "../devices";
import { dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { fullName, type MetricName } from "../metrics";
import type { Range } from "../plants";
import type { Mark } from "../ui/chart-overlay";

/** The alerts and commands of a plant in a range. */
export interface PlantEvents {
  /** Each with what raised it. */
  alerts: (Alert & { title: string })[];
  commands: Command[];
  /** Whether there are older ones in the range, which are not read. */
  isCut: boolean;
  marks: Mark[];
  error: Error | null;
}

export function usePlantEvents(
  organizationId: string,
  plantId: string,
  range: Range,
  timeZone: string,
  nameOf: (metric: string) => MetricName,
): PlantEvents {
  const texts = useTexts();
  const locale = useLocale();
  const alerts = useQuery(alertsInRangeQuery(organizationId, plantId, range));
  const commands = useQuery(commandsInRangeQuery(organizationId, plantId, range));
  return useMemo(() => {
    const mark = (kind: Mark["kind"], time: string, what: string) => ({
      kind,
      time,
      label: `${dateTime(time, timeZone, locale)} · ${what}`,
    });
    const raised = (alerts.data?.data ?? []).map((alert) => ({
      ...alert,
      title: alertTitle(alert, fullName(nameOf(alert.metric)), texts.rules.comparisons, locale),
    }));
    const issued = commands.data?.data ?? [];
    return {
      alerts: raised,
      commands: issued,
      isCut:
        (alerts.data?.meta.total ?? 0) > raised.length ||
        (commands.data !== undefined && commands.data.meta.nextCursor !== null),
      marks: [
        ...raised.map(({ measuredAt, title, severity }) => ({ ...mark("alert", measuredAt, title), severity })),
        ...issued.map((command) => mark("command", command.issuedAt, commandName(command, texts.trading.types))),
      ],
      error: alerts.error ?? commands.error,
    };
  }, [alerts.data, alerts.error, commands.data, commands.error, timeZone, nameOf, texts, locale]);
}
