import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { refusedQuery, unregisteredQuery, useTimeZone } from "../plants";
import { Age } from "../ui/age";
import { Failure } from "../ui/failure";
import { useNow } from "../ui/now";
import { Pager } from "../ui/pager";
import { Section } from "../ui/section";
import { ListTable } from "../ui/table";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/messages");

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
                <Age time={device.firstSeenAt} now={now} timeZone={timeZone} />
              </td>
              <td>
                <Age time={device.lastSeenAt} now={now} timeZone={timeZone} />
              </td>
            </tr>
          )}
        </ListTable>
      </Section>
      <Section title={texts.messages.refused}>
        {refused.data?.meta.total === 0 && <p className="fine">{texts.messages.noRefused}</p>}
        {refused.data?.data.map((message) => (
          <article key={message.id} className="card refusal">
            <h3>
              {texts.messages.reasons[message.reason].title} <code className="fine">{message.reason}</code>
            </h3>
            <p>
              <code>{message.detail}</code>
            </p>
            <p className="hint">{texts.messages.reasons[message.reason].action}</p>
            <p className="fine facts">
              <Age time={message.receivedAt} now={now} timeZone={timeZone} />
              <span>{message.topic}</span>
              <span>{texts.messages.bytes(message.bytes)}</span>
              {message.messageId !== null && <span>{texts.messages.id(message.messageId)}</span>}
            </p>
          </article>
        ))}
        <Pager meta={refused.data?.meta} onPage={(next) => navigate({ search: { page: next } })} />
      </Section>
    </>
  );
}
