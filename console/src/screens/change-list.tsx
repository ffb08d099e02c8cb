import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { type AuditEvent, eventText, factsOf, type Words } from "../changes";
import { useLanguage, useLocale, useTexts } from "../i18n";
import { changes as german } from "../i18n/de/changes";
import { changes as english } from "../i18n/en/changes";
import { keysQuery } from "../partners";
import { allMembersQuery, auditQuery } from "../people";
import { useTimeZone } from "../plants";
import { type AuditSearch, SUBJECTS, SUBJECTS_OF_PLANT } from "../searches/audit";
import { templatesOfAllLevelsQuery } from "../templates";
import { Failure } from "../ui/failure";
import { FilterField } from "../ui/fields";
import { Moment } from "../ui/moment";
import { Pager } from "../ui/pager";
import { PlantName } from "../ui/plant-name";
import { ListTable } from "../ui/table";
import { TimeFilter } from "../ui/time-filter";

const route = getRouteApi("/inside/o/$slug");

/** The pages of subjects; that of a plant is in the details of all its events. */
const PAGES = {
  ALERT: "/o/$slug/alerts/$alertId",
  ALERT_RULE: "/o/$slug/rules/$ruleId",
  PLANT_GROUP: "/o/$slug/groups/$groupId",
  DEVICE_TEMPLATE: "/o/$slug/templates/$templateId",
} as const;

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
  const changes = { en: english, de: german }[useLanguage()];
  const locale = useLocale();
  const { organization, user } = route.useRouteContext();
  const members = useQuery(allMembersQuery(organization.id));
  const keys = useQuery(keysQuery(organization.id));
  const templates = useQuery(templatesOfAllLevelsQuery);
  const actors = new Map(members.data?.map(({ userId, user: { name } }) => [userId, name]));
  actors.set(user.id, user.name);
  // Other SuperAdmins, former members, plants and older keys have no name here.
  for (const { id, name } of keys.data?.data ?? []) actors.set(id, name);
  if (search.actor !== undefined && !actors.has(search.actor)) actors.set(search.actor, search.actor);
  const names = new Map([...actors, ...(templates.data ?? []).map(({ id, name }) => [id, name] as const)]);
  const timeZone = useTimeZone(organization, plantId);
  const words: Words = { texts, changes, names, timeZone, locale };
  const events = useQuery(auditQuery(organization.id, search, plantId));
  // Other filters begin with their first page.
  const filter = (chosen: Partial<AuditSearch>) => onSearch({ ...search, ...chosen, page: undefined });
  return (
    <>
      <div className="toolbar">
        {children}
        <FilterField
          label={texts.audit.subject}
          values={plantId === undefined ? SUBJECTS : SUBJECTS_OF_PLANT}
          labels={texts.audit.subjects}
          value={search.subject}
          onChoose={(subject) => filter({ subject })}
        />
        <FilterField
          label={texts.audit.actor}
          values={[...actors.keys()]}
          labels={Object.fromEntries(actors)}
          value={search.actor}
          onChoose={(actor) => filter({ actor })}
        />
        <TimeFilter
          key={`${search.from} ${search.to} ${timeZone}`}
          times={search}
          timeZone={timeZone}
          onChoose={filter}
        />
      </div>
      <Failure error={events.error} />
      {events.data?.meta.total === 0 && <p className="fine">{texts.audit.none}</p>}
      <ListTable
        rows={events.data?.data}
        label={texts.audit.title}
        headings={[texts.audit.time(timeZone), texts.audit.event, texts.audit.details, texts.audit.actor]}
      >
        {(event) => {
          const actorType = texts.audit.actors[event.actorType as keyof typeof texts.audit.actors] ?? event.actorType;
          const actor = actors.get(event.actorId ?? "") ?? actorType;
          return (
            <tr key={event.id}>
              <td>
                <Moment time={event.createdAt} timeZone={timeZone} />
              </td>
              <th scope="row">
                <Subject event={event} text={eventText(changes, event.event)} />
                <Raw event={event} label={changes.raw(event.event)} />
              </th>
              <td className="wrap">
                {plantId === undefined && event.plantId !== null && event.event !== "plant.deleted" && (
                  <PlantName organizationId={organization.id} slug={organization.slug} plantId={event.plantId} />
                )}
                {factsOf(event, words).map(({ label, text }) => (
                  <div key={label}>
                    <span className="fine">{label}</span> {text}
                  </div>
                ))}
              </td>
              <td title={actorType}>
                {event.actorId === null ? (
                  actor
                ) : (
                  <Link
                    to="."
                    search={{ ...search, actor: event.actorId, page: undefined }}
                    aria-label={texts.audit.only(actor === actorType ? event.actorId : actor)}
                  >
                    {actor}
                  </Link>
                )}
                <span className="fine">{event.ip}</span>
              </td>
            </tr>
          );
        }}
      </ListTable>
      <Pager meta={events.data?.meta} onPage={(next) => onSearch({ ...search, page: next })} />
    </>
  );
}

/** What an event is called: a link to its subject, if that has a page. */
function Subject({ event, text }: { event: AuditEvent; text: string }) {
  const { slug } = route.useParams();
  const { event: name, subjectType, subjectId: id } = event;
  const to = PAGES[subjectType as keyof typeof PAGES];
  if (id === null || to === undefined || name.endsWith(".deleted")) return text;
  return (
    <Link to={to} params={{ slug, alertId: id, ruleId: id, groupId: id, templateId: id }}>
      {text}
    </Link>
  );
}

/** The name of an event, as logs and the API have it, with the ids and details as they were recorded. */
function Raw({ event, label }: { event: AuditEvent; label: string }) {
  const { subjectId, plantId, actorId, details } = event;
  return (
    <details className="fine">
      <summary aria-label={label}>
        <code>{event.event}</code>
      </summary>
      <code>{JSON.stringify({ subjectId, plantId, actorId, ...details }, null, " ")}</code>
    </details>
  );
}
