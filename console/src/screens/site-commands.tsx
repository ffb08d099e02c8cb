import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { clock } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { COMMAND_TYPES } from "../searches/trading";
import { commandLogQuery, contentOf, type LogEntry } from "../trading";
import { Age } from "../ui/age";
import { Failure } from "../ui/failure";
import { FilterField } from "../ui/fields";
import { useNow } from "../ui/now";
import { Pager } from "../ui/pager";
import { Section } from "../ui/section";
import { CommandState, type CommandStatus } from "../ui/state";
import { ListTable } from "../ui/table";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/trading");

/** What partners requested, and what became of it. */
export function SiteCommands({ timeZone }: { timeZone: string }) {
  const texts = useTexts();
  const now = useNow(10);
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const log = useQuery(commandLogQuery(organization.id, plantId, search));
  return (
    <Section
      title={texts.trading.log}
      tools={
        <FilterField
          label={texts.trading.command}
          value={search.type}
          values={COMMAND_TYPES}
          labels={texts.trading.types}
          onChoose={(type) => navigate({ search: ({ at, hours }) => ({ at, hours, type }), replace: true })}
        />
      }
    >
      <Failure error={log.error} />
      {log.data?.meta.total === 0 && <p className="fine">{texts.trading.noCommands}</p>}
      <ListTable
        rows={log.data?.data}
        headings={[texts.trading.command, texts.trading.content, texts.trading.received, texts.trading.outcome]}
      >
        {(entry) => <Entry key={entry.id} entry={entry} now={now} timeZone={timeZone} />}
      </ListTable>
      <Pager meta={log.data?.meta} onPage={(page) => navigate({ search: (before) => ({ ...before, page }) })} />
    </Section>
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
