import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { allCommandsQuery, type Command, commandName, commandsQuery } from "../devices";
import { clock, dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { useTimeZone } from "../plants";
import { mayAct } from "../session";
import { Age } from "../ui/age";
import { Failure } from "../ui/failure";
import { More } from "../ui/more";
import { useNow } from "../ui/now";
import { Section } from "../ui/section";
import { CommandState } from "../ui/state";

/** While a command waits for the plant's answer, its state is asked for this often, in milliseconds. */
const SOON = 1_000;
const LATER = 10_000;
const WAITING: readonly Command["status"][] = ["PENDING", "SENT", "RECEIVED"];

const route = getRouteApi("/inside/o/$slug/plants/$plantId/commands");

/** Return after how many milliseconds commands are read again. */
function intervalOf(commands: readonly Command[]): number {
  return commands.some(({ status }) => WAITING.includes(status)) ? SOON : LATER;
}

/** All commands to a plant and its devices, also those of partners, newest first. */
export function PlantCommandsScreen() {
  const texts = useTexts();
  const now = useNow(1);
  const { user, organization } = route.useRouteContext();
  const params = route.useParams();
  const { plantId } = params;
  const timeZone = useTimeZone(organization, plantId);
  const list = useInfiniteQuery({
    ...allCommandsQuery(organization.id, plantId),
    refetchInterval: ({ state }) => {
      // All pages are read again: with more of them, less often.
      const pages = state.data?.pages ?? [];
      return intervalOf(pages[0]?.data ?? []) * Math.max(1, pages.length);
    },
  });
  const commands = list.data?.pages.flatMap(({ data }) => data);
  return (
    <Section title={texts.devices.commands}>
      <Failure error={list.error} />
      {commands?.length === 0 && (
        <div className="card empty">
          <p>{texts.devices.noCommands}</p>
          {mayAct(user, organization, "OPERATOR") && (
            <Link to="/o/$slug/plants/$plantId/devices" params={params}>
              {texts.devices.sendOne}
            </Link>
          )}
        </div>
      )}
      {commands?.map((command) => (
        <CommandCard key={command.id} command={command} now={now} timeZone={timeZone} />
      ))}
      <More list={list} />
    </Section>
  );
}

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
    refetchInterval: ({ state }) => intervalOf(state.data?.data ?? []),
  });
  if (commands.error === null && !commands.data?.data.length) return null;
  return (
    <Section title={texts.devices.commands}>
      <Failure error={commands.error} />
      {commands.data?.data.map((command) => (
        <CommandCard key={command.id} command={command} now={now} timeZone={timeZone} />
      ))}
    </Section>
  );
}

/** What was requested by whom, and what became of it. */
function CommandCard({ command, now, timeZone }: { command: Command; now: number; timeZone: string }) {
  const texts = useTexts();
  return (
    <article className="card refusal">
      <div className="toolbar">
        <h3>{commandName(command, texts.trading.types)}</h3>
        <CommandState status={command.status} />
        <span className="fine">
          <Age time={command.issuedAt} now={now} timeZone={timeZone} /> {command.requestedByName}
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
  );
}

function Steps({ command, timeZone }: { command: Command; timeZone: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const steps: [Command["status"], string | null][] = [
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
              {texts.command[status]}{" "}
              <time dateTime={time} title={dateTime(time, "UTC", locale)}>
                {clock(time, timeZone, locale)}
              </time>
            </li>
          ),
      )}
    </ol>
  );
}
