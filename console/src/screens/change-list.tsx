import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTexts } from "../i18n";
import { allMembersQuery, auditQuery } from "../people";
import { useTimeZone } from "../plants";
import { type AuditSearch, SUBJECTS, SUBJECTS_OF_PLANT } from "../searches/audit";
import { Failure } from "../ui/failure";
import { FilterField } from "../ui/fields";
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
export function ChangeList({ plantId, search, onSearch, children }: Props) {
  const texts = useTexts();
  const { organization, user } = route.useRouteContext();
  const members = useQuery(allMembersQuery(organization.id));
  const names = new Map(members.data?.map(({ userId, user: { name } }) => [userId, name]));
  names.set(user.id, user.name);
  // Of other SuperAdmins and former members, of keys and plants, the id is shown.
  if (search.actor !== undefined && !names.has(search.actor)) names.set(search.actor, search.actor);
  const timeZone = useTimeZone(organization, plantId);
  const events = useQuery(auditQuery(organization.id, search, plantId));
  return (
    <>
      <div className="toolbar">
        {children}
        <FilterField
          label={texts.audit.subject}
          values={plantId === undefined ? SUBJECTS : SUBJECTS_OF_PLANT}
          labels={texts.audit.subjects}
          value={search.subject}
          onChoose={(subject) => onSearch({ actor: search.actor, subject })}
        />
        <FilterField
          label={texts.audit.actor}
          values={[...names.keys()]}
          labels={Object.fromEntries(names)}
          value={search.actor}
          onChoose={(actor) => onSearch({ subject: search.subject, actor })}
        />
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
              {event.actorId !== null && (
                <Link
                  to="."
                  search={{ subject: search.subject, actor: event.actorId }}
                  className="fine"
                  aria-label={texts.audit.only(names.get(event.actorId) ?? event.actorId)}
                >
                  {names.get(event.actorId) ?? event.actorId}
                </Link>
              )}
              <span className="fine">{event.ip}</span>
            </td>
          </tr>
        )}
      </ListTable>
      <Pager meta={events.data?.meta} onPage={(next) => onSearch({ ...search, page: next })} />
    </>
  );
}

/** Return a detail as text: values that are no text, and no list of texts, as JSON. */
function textOf(value: unknown): string {
  const values = Array.isArray(value) ? value : [value];
  return values.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(", ");
}
