import { useQuery } from "@tanstack/react-query";
import { commandsQuery, type PlantCommand } from "../devices";
import { clock } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { Age } from "../ui/age";
import { Failure } from "../ui/failure";
import { useNow } from "../ui/now";
import { Section } from "../ui/section";
import { CommandState } from "../ui/state";

/** While a command waits for the plant's answer, its state is asked for this often, in milliseconds. */
const SOON = 1_000;
const LATER = 10_000;
const WAITING: readonly PlantCommand["status"][] = ["PENDING", "SENT", "RECEIVED"];

interface Props {
  organizationId: string;
  plantId: string;
  timeZone: string;
}

/** The newest commands to a plant's devices, with the time of each step until the plant's own answer. */
export function Commands({ organizationId, plantId, timeZone }: Props) {
  const texts = useTexts();
  const now = useNow(1);
  const commands = useQuery({
    ...commandsQuery(organizationId, plantId),
    refetchInterval: ({ state }) => (state.data?.data.some(({ status }) => WAITING.includes(status)) ? SOON : LATER),
  });
  if (commands.error === null && !commands.data?.data.length) return null;
  return (
    <Section title={texts.devices.commands}>
      <Failure error={commands.error} />
      {commands.data?.data.map((command) => (
        <article key={command.id} className="card refusal">
          <div className="toolbar">
            <h3>{`${command.externalId}: ${command.action}`}</h3>
            <CommandState status={command.status} />
            <span className="fine">
              <Age time={command.issuedAt} now={now} timeZone={timeZone} />
            </span>
          </div>
          {command.params !== null && Object.keys(command.params).length > 0 && (
            <p className="facts">
              {Object.entries(command.params).map(([name, value]) => (
                <span key={name}>
                  {name}: <strong>{typeof value === "string" ? value : JSON.stringify(value)}</strong>
                </span>
              ))}
            </p>
          )}
          <Steps command={command} timeZone={timeZone} />
          {command.reason !== null && <p className="hint">{command.reason.message}</p>}
        </article>
      ))}
    </Section>
  );
}

function Steps({ command, timeZone }: { command: PlantCommand; timeZone: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const steps: [PlantCommand["status"], string | null][] = [
    ["PENDING", command.issuedAt],
    ["SENT", command.sentAt],
    ["RECEIVED", command.receivedAt],
  ];
  if (command.finishedAt !== null) steps.push([command.status, command.finishedAt]);
  return (
    <ol className="steps">
      {steps.map(
        ([status, time]) =>
          time !== null && (
            <li key={status}>
              {texts.command[status]} <time dateTime={time}>{clock(time, timeZone, locale)}</time>
            </li>
          ),
      )}
    </ol>
  );
}
