import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { commandName } from "../devices";
import { useTexts } from "../i18n";
import { Failure } from "../ui/failure";
import { Moment } from "../ui/moment";
import { Section } from "../ui/section";
import { AlertState, CommandState } from "../ui/state";
import { ListTable } from "../ui/table";
import type { PlantEvents } from "./plant-events";

/** The events that a chart marks, newest first: also for readers who cannot see it. */
export function EventList({ events, timeZone }: { events: PlantEvents; timeZone: string }) {
  const texts = useTexts();
  const { slug } = getRouteApi("/inside/o/$slug").useParams();
  const rows: { id: string; time: string; what: ReactNode; state: ReactNode }[] = [
    ...events.alerts.map(({ id, measuredAt, title, severity, status }) => ({
      id,
      time: measuredAt,
      what: (
        <Link to="/o/$slug/alerts/$alertId" params={{ slug, alertId: id }}>
          {title}
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
