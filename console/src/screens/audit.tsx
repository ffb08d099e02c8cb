import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { dateTime } from "../format/times";
import { useLocale, useTexts } from "../i18n";
import { type AuditSubject, auditQuery, membersQuery, SUBJECTS } from "../people";
import { Failure } from "../ui/failure";
import { Pager } from "../ui/pager";
import { Table } from "../ui/table";

const route = getRouteApi("/inside/o/$slug/audit");

/** Who changed what in the organisation, newest first. */
export function AuditScreen() {
  const texts = useTexts();
  const locale = useLocale();
  const navigate = route.useNavigate();
  const { organization } = route.useRouteContext();
  const { subject, page = 1 } = route.useSearch();
  // Of SuperAdmins and former members, the id is shown.
  const members = useQuery(membersQuery(organization.id, ""));
  const nameOf = (id: string | null) => members.data?.data.find(({ userId }) => userId === id)?.user.name ?? id;
  const events = useQuery(auditQuery(organization.id, subject, page));
  return (
    <>
      <title>{`${texts.audit.title} · ${organization.name}`}</title>
      <div className="toolbar">
        <h1 className="grow">{texts.audit.title}</h1>
        <select
          aria-label={texts.audit.subject}
          value={subject ?? ""}
          onChange={(event) => navigate({ search: { subject: (event.target.value || undefined) as AuditSubject } })}
        >
          <option value="">{texts.audit.all}</option>
          {SUBJECTS.map((one) => (
            <option key={one} value={one}>
              {texts.audit.subjects[one]}
            </option>
          ))}
        </select>
      </div>
      <Failure error={events.error} />
      {events.data?.meta.total === 0 && <p className="fine">{texts.audit.none}</p>}
      {events.data !== undefined && events.data.meta.total > 0 && (
        <>
          <Table headings={[texts.audit.time, texts.audit.event, texts.audit.details, texts.audit.actor]}>
            {events.data.data.map((event) => (
              <tr key={event.id}>
                <td>
                  <time dateTime={event.createdAt}>{dateTime(event.createdAt, "UTC", locale)}</time>
                </td>
                <th scope="row">
                  <code>{event.event}</code>
                  <span className="fine">{event.subjectId}</span>
                </th>
                <td className="wrap">
                  {Object.entries(event.details).map(([name, value]) => (
                    <div key={name}>
                      <span className="fine">{name}</span> {typeof value === "string" ? value : JSON.stringify(value)}
                    </div>
                  ))}
                </td>
                <td>
                  {texts.audit.actors[event.actorType as keyof typeof texts.audit.actors] ?? event.actorType}
                  <span className="fine">{nameOf(event.actorId)}</span>
                  <span className="fine">{event.ip}</span>
                </td>
              </tr>
            ))}
          </Table>
          <Pager
            page={page}
            pages={events.data.meta.totalPages}
            onPage={(next) => navigate({ search: { subject, page: next } })}
          />
        </>
      )}
    </>
  );
}
