import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTexts } from "../i18n";
import { auditQuery, membersQuery } from "../people";
import { useTimeZone } from "../plants";
import { type AuditSearch, type AuditSubject, SUBJECTS, SUBJECTS_OF_PLANT } from "../searches/audit";
import { Failure } from "../ui/failure";
import { Moment } from "../ui/moment";
import { Pager } from "../ui/pager";
import { ListTable } from "../ui/table";

const route = getRouteApi("/inside/o/$slug");

interface Props {
  /** Without it, the changes in the whole organisation. */
  plantId?: string;
  search: AuditSearch;
  onSearch: (search: AuditSearch) => void;
  /** The heading. */
  children: ReactNode;
}

/** Who changed what, newest first. */
export function ChangeList({ plantId, search: { subject, page = 1 }, onSearch, children }: Props) {
  const texts = useTexts();
  const { organization, user } = route.useRouteContext();
  // Of other SuperAdmins and former members, the id is shown.
  const members = useQuery(membersQuery(organization.id, {}));
  const nameOf = (id: string | null) =>
    id === user.id ? user.name : (members.data?.data.find(({ userId }) => userId === id)?.user.name ?? id);
  const timeZone = useTimeZone(organization.id, plantId);
  const events = useQuery(auditQuery(organization.id, subject, page, plantId));
  return (
    <>
      <div className="toolbar">
        {children}
        <select
          aria-label={texts.audit.subject}
          value={subject ?? ""}
          onChange={(event) => onSearch({ subject: (event.target.value || undefined) as AuditSubject })}
        >
          <option value="">{texts.audit.all}</option>
          {(plantId === undefined ? SUBJECTS : SUBJECTS_OF_PLANT).map((one) => (
            <option key={one} value={one}>
              {texts.audit.subjects[one]}
            </option>
          ))}
        </select>
      </div>
      <Failure error={events.error} />
      {events.data?.meta.total === 0 && <p className="fine">{texts.audit.none}</p>}
      <ListTable
        rows={events.data?.data}
        label={texts.audit.title}
        headings={[texts.audit.time(timeZone), texts.audit.event, texts.audit.details, texts.audit.actor]}
      >
        {(event) => (
          <tr key={event.id}>
            <td>
              <Moment time={event.createdAt} timeZone={timeZone} />
            </td>
            <th scope="row">
              <code>{event.event}</code>
              <span className="fine">{event.subjectId}</span>
            </th>
            <td className="wrap">
              {Object.entries(event.details).map(([name, value]) => (
                <div key={name}>
                  <span className="fine">{name}</span> {textOf(value)}
                </div>
              ))}
            </td>
            <td>
              {texts.audit.actors[event.actorType as keyof typeof texts.audit.actors] ?? event.actorType}
              <span className="fine">{nameOf(event.actorId)}</span>
              <span className="fine">{event.ip}</span>
            </td>
          </tr>
        )}
      </ListTable>
      <Pager meta={events.data?.meta} onPage={(next) => onSearch({ subject, page: next })} />
    </>
  );
}

/** Return a detail as text: values that are no text, and no list of texts, as JSON. */
function textOf(value: unknown): string {
  const values = Array.isArray(value) ? value : [value];
  return values.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(", ");
}
