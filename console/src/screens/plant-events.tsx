import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { alertsInRangeQuery } from "../alerts";
import type { components } from "../api/schema";
import { type Command, commandName, commandsInRangeQuery } from "../devices";
import { dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import type { Range } from "../plants";
import type { Mark } from "../ui/chart-overlay";
import { Failure } from "../ui/failure";
import { Moment } from "../ui/moment";
import { Section } from "../ui/section";
import { AlertState, CommandState } from "../ui/state";
import { ListTable } from "../ui/table";

type Alert = components["schemas"]["Alert"];

/** The alerts and commands of a plant in a range. */
export interface PlantEvents {
  alerts: Alert[];
  commands: Command[];
  /** Whether there are older ones in the range, which are not read. */
  isCut: boolean;
  marks: Mark[];
  error: Error | null;
}

export function usePlantEvents(organizationId: string, plantId: string, range: Range, timeZone: string): PlantEvents {
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
    const raised = alerts.data?.data ?? [];
    const issued = commands.data?.data ?? [];
    return {
      alerts: raised,
      commands: issued,
      isCut:
        (alerts.data?.meta.total ?? 0) > raised.length ||
        (commands.data !== undefined && commands.data.meta.nextCursor !== null),
      marks: [
        ...raised.map(({ measuredAt, message, severity }) => ({ ...mark("alert", measuredAt, message), severity })),
        ...issued.map((command) => mark("command", command.issuedAt, commandName(command, texts.trading.types))),
      ],
      error: alerts.error ?? commands.error,
    };
  }, [alerts.data, alerts.error, commands.data, commands.error, timeZone, texts, locale]);
}

/** The events that a chart marks, newest first: also for readers who cannot see it. */
export function EventList({ events, timeZone }: { events: PlantEvents; timeZone: string }) {
  const texts = useTexts();
  const { slug } = getRouteApi("/inside/o/$slug").useParams();
  const rows: { id: string; time: string; what: ReactNode; state: ReactNode }[] = [
    ...events.alerts.map(({ id, measuredAt, message, severity, status }) => ({
      id,
      time: measuredAt,
      what: (
        <Link to="/o/$slug/alerts/$alertId" params={{ slug, alertId: id }}>
          {message}
        </Link>
      ),
      state: (
        <>
          <AlertState severity={severity} /> <span className="fine">{texts.alerts.states[status]}</span>
        </>
      ),
    })),
    ...events.commands.map((command) => ({
      id: command.id,
      time: command.issuedAt,
      what: texts.history.command(commandName(command, texts.trading.types)),
      state: <CommandState status={command.status} />,
    })),
  ].sort((one, other) => Date.parse(other.time) - Date.parse(one.time));
  return (
    <Section title={texts.history.events}>
      <Failure error={events.error} />
      <ListTable
        rows={rows}
        none={texts.history.noEvents}
        label={texts.history.events}
        headings={[texts.history.time, texts.alerts.what, texts.alerts.status]}
      >
        {({ id, time, what, state }) => (
          <tr key={id}>
            <td>
              <Moment time={time} timeZone={timeZone} />
            </td>
            <th scope="row" className="wrap">
              {what}
            </th>
            <td>{state}</td>
          </tr>
        )}
      </ListTable>
      {events.isCut && <p className="fine">{texts.history.cut}</p>}
    </Section>
  );
}
