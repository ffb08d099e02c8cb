import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { refusedQuery, unregisteredQuery, useTimeZone } from "../plants";
import { byCause, type Cause } from "../refusals";
import { Age } from "../ui/age";
import { Failure } from "../ui/failure";
import { Moment } from "../ui/moment";
import { useNow } from "../ui/now";
import { Pager } from "../ui/pager";
import { Section } from "../ui/section";
import { ListTable, Table } from "../ui/table";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/messages");
/** Reasons that end with another secret, or with another package. */
const OF_CREDENTIALS: readonly string[] = ["SIGNATURE_INVALID", "NOT_PROVISIONED"];

/** Why messages of the plant were refused and what to do about it, and devices that are not registered. */
export function PlantMessagesScreen() {
  const texts = useTexts();
  const now = useNow(1);
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const timeZone = useTimeZone(organization, plantId);
  const { page } = route.useSearch();
  const navigate = route.useNavigate();
  const refused = useQuery({ ...refusedQuery(organization.id, plantId, page), refetchInterval: 5_000 });
  const unregistered = useQuery({ ...unregisteredQuery(organization.id, plantId), refetchInterval: 5_000 });
  const isPage = (refused.data?.meta.totalPages ?? 0) > 1;
  return (
    <>
      <Failure error={refused.error ?? unregistered.error} />
      <Section title={texts.messages.unregistered}>
        <ListTable
          rows={unregistered.data}
          none={texts.messages.noUnregistered}
          headings={[
            texts.messages.device,
            { label: texts.messages.count, kind: "number" },
            texts.messages.first,
            texts.messages.last,
          ]}
        >
          {(device) => (
            <tr key={device.externalId}>
              <th scope="row">
                <code>{device.externalId}</code>
              </th>
              <td className="number">{device.count}</td>
              <td>
                <Age time={device.firstSeenAt} now={now} timeZone={timeZone} short />
              </td>
              <td>
                <Age time={device.lastSeenAt} now={now} timeZone={timeZone} short />
              </td>
            </tr>
          )}
        </ListTable>
      </Section>
      <Section title={texts.messages.refused}>
        {refused.data?.meta.total === 0 && <p className="fine">{texts.messages.noRefused}</p>}
        {[...byCause(refused.data?.data ?? [])].map(([key, cause]) => (
          <Refusal key={key} cause={cause} isPage={isPage} now={now} timeZone={timeZone} />
        ))}
        <Pager meta={refused.data?.meta} onPage={(next) => navigate({ search: { page: next } })} />
      </Section>
    </>
  );
}

interface RefusalProps {
  cause: Cause;
  /** Whether other pages may have more messages of this cause. */
  isPage: boolean;
  now: number;
  timeZone: string;
}

/** Why messages were refused and what to do, once for all that were refused for the same cause. */
function Refusal({ cause, isPage, now, timeZone }: RefusalProps) {
  const texts = useTexts();
  const params = route.useParams();
  const [{ reason, detail, receivedAt }] = cause;
  return (
    <article className="card refusal">
      <div className="toolbar">
        <h3>{texts.messages.reasons[reason].title}</h3>
        <span className="fine">
          {texts.messages.times(cause.length, isPage)} <Age time={receivedAt} now={now} timeZone={timeZone} />
        </span>
      </div>
      <p>
        <code>{detail}</code>
      </p>
      <p className="hint">
        {texts.messages.reasons[reason].action}{" "}
        {OF_CREDENTIALS.includes(reason) && (
          <Link to="/o/$slug/plants/$plantId/credentials" params={params}>
            {texts.credentials.open}
          </Link>
        )}
      </p>
      <details>
        <summary>{texts.messages.technical}</summary>
        <p>
          <code className="fine">{reason}</code>
        </p>
        <Table
          label={texts.messages.technical}
          headings={[
            texts.messages.received,
            { label: texts.messages.size, kind: "number" },
            texts.messages.id,
            texts.messages.detail,
            texts.messages.topic,
          ]}
        >
          {cause.map((message) => (
            <tr key={message.id}>
              <td>
                <Moment time={message.receivedAt} timeZone={timeZone} />
              </td>
              <td className="number">{texts.messages.bytes(message.bytes)}</td>
              <td>{message.messageId}</td>
              <td>{message.detail}</td>
              <td>{message.topic}</td>
            </tr>
          ))}
        </Table>
      </details>
    </article>
  );
}
