import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { api, dataOf, inOrganization } from "../api/client";
import { useTexts } from "../i18n";
import { type Invitation, invitationsQuery, type Member, membersQuery, ROLES } from "../people";
import type { Role } from "../session";
import { Age } from "../ui/age";
import { Confirm } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { Options } from "../ui/fields";
import { Form } from "../ui/form";
import { useNow } from "../ui/now";
import { PageHead } from "../ui/page-head";
import { Pager } from "../ui/pager";
import { SearchField } from "../ui/search-field";
import { Section } from "../ui/section";
import { ListTable, Table } from "../ui/table";
import { ForAdministrators } from "./for-administrators";

const route = getRouteApi("/inside/o/$slug/people");

/** Who belongs to the organisation, with which role, and who is invited. */
export function PeopleScreen() {
  const texts = useTexts();
  return (
    <ForAdministrators title={texts.people.title}>
      <People />
    </ForAdministrators>
  );
}

function People() {
  const texts = useTexts();
  const { organization } = route.useRouteContext();
  return (
    <>
      <PageHead title={texts.people.title} of={organization.name} />
      <Members />
      <Invitations />
    </>
  );
}

function Members() {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const { user, organization } = route.useRouteContext();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [removing, setRemoving] = useState<Member | null>(null);
  const [chosen, setChosen] = useState<{ member: Member; role: Role } | null>(null);
  const members = useQuery(membersQuery(organization.id, search));
  const isEmpty = search.q === undefined && members.data?.data.length === 0;
  // Of many members, the user may be on another page.
  const isStranger = user.isSuperAdmin && search.q === undefined && members.data?.meta.totalPages === 1;
  // A member who may no longer invite loses their open invitations.
  const reload = () =>
    Promise.all(
      ["members", "invitations"].map((list) => queryClient.invalidateQueries({ queryKey: [organization.id, list] })),
    );
  const paramsOf = (member: Member) => ({
    header: inOrganization(organization.id),
    path: { orgId: organization.id, memberId: member.id },
  });
  return (
    <Section
      title={texts.people.members}
      tools={
        !isEmpty && (
          <SearchField
            label={texts.people.search}
            value={search.q}
            onSearch={(q) => navigate({ search: { q }, replace: true })}
          />
        )
      }
    >
      <Failure error={members.error} />
      {isStranger && members.data?.data.every(({ userId }) => userId !== user.id) && (
        <p className="fine">{texts.people.superAdmin}</p>
      )}
      {members.data?.data.length === 0 ? (
        <p className="fine">{isEmpty ? texts.people.noMembers : texts.people.noneFound}</p>
      ) : (
        <Table headings={[texts.people.name, texts.people.role, { label: texts.people.remove, kind: "hidden" }]}>
          {members.data?.data.map((member) => (
            <tr key={member.id}>
              <th scope="row">
                {member.user.name}
                <span className="fine">{member.user.email}</span>
              </th>
              <td>
                <select
                  aria-label={texts.people.roleOf(member.user.name)}
                  value={chosen?.member.id === member.id ? chosen.role : member.role}
                  disabled={member.userId === user.id}
                  onChange={(event) => setChosen({ member, role: event.target.value as Role })}
                >
                  <Options values={ROLES} labels={texts.role} />
                </select>
              </td>
              <td className="number">
                {member.userId !== user.id && (
                  <button type="button" onClick={() => setRemoving(member)}>
                    {texts.people.remove}
                  </button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Pager meta={members.data?.meta} onPage={(page) => navigate({ search: ({ q }) => ({ q, page }) })} />
      {chosen !== null && (
        <Confirm
          title={texts.people.changeTitle(chosen.member.user.name)}
          consequence={texts.people.changeConsequence(texts.role[chosen.role], organization.name)}
          action={texts.people.change}
          run={async () => {
            await dataOf(
              api.PATCH("/api/v1/organizations/{orgId}/members/{memberId}", {
                params: paramsOf(chosen.member),
                body: { role: chosen.role },
              }),
            );
            await reload();
          }}
          onClose={() => setChosen(null)}
        />
      )}
      {removing !== null && (
        <Confirm
          title={texts.people.removeTitle(removing.user.name)}
          consequence={texts.people.removeConsequence(organization.name)}
          name={removing.user.name}
          action={texts.people.remove}
          run={async () => {
            await dataOf(
              api.DELETE("/api/v1/organizations/{orgId}/members/{memberId}", { params: paramsOf(removing) }),
            );
            await reload();
          }}
          onClose={() => setRemoving(null)}
        />
      )}
    </Section>
  );
}

/** Whether the link of an invitation still leads to a membership: also one that was accepted without registering. */
function mayBeRevoked({ status, joinedAt, expiresAt }: Invitation, now: number): boolean {
  return status === "PENDING" || (status === "ACCEPTED" && joinedAt === null && Date.parse(expiresAt) > now);
}

function Invitations() {
  const texts = useTexts();
  const now = useNow(1);
  const queryClient = useQueryClient();
  const { organization } = route.useRouteContext();
  const header = inOrganization(organization.id);
  const [page, setPage] = useState(1);
  const invitations = useQuery(invitationsQuery(organization.id, page));
  const reload = () => queryClient.invalidateQueries({ queryKey: [organization.id, "invitations"] });
  const invite = useMutation({
    mutationFn: (body: { email: string; role: Role }) =>
      dataOf(api.POST("/api/v1/invitations", { params: { header }, body })),
    onSuccess: () => {
      // The new one is the first.
      setPage(1);
      return reload();
    },
  });
  const [revoking, setRevoking] = useState<Invitation | null>(null);
  return (
    <Section title={texts.people.invitations}>
      <Form
        className="card toolbar"
        onSubmit={(values, form) =>
          invite.mutate(
            { email: String(values.get("email")), role: String(values.get("role")) as Role },
            { onSuccess: () => form.reset() },
          )
        }
      >
        <label className="grow">
          {texts.login.email}
          <input name="email" type="email" required autoComplete="off" />
        </label>
        <div className="field">
          <label htmlFor="invited-role">{texts.people.role}</label>
          <select name="role" id="invited-role">
            <Options values={ROLES} labels={texts.role} />
          </select>
        </div>
        <button type="submit" className="primary" disabled={invite.isPending}>
          {texts.people.invite}
        </button>
      </Form>
      <Failure error={invitations.error ?? invite.error} />
      <ListTable
        rows={invitations.data?.data}
        headings={[
          texts.login.email,
          texts.people.role,
          texts.fleet.status,
          texts.people.invited,
          { label: texts.people.revoke, kind: "hidden" },
        ]}
      >
        {(invitation) => (
          <tr key={invitation.id}>
            <th scope="row">{invitation.email}</th>
            <td>{texts.role[invitation.role]}</td>
            <td>{texts.people.statuses[invitation.status]}</td>
            <td>
              <Age time={invitation.createdAt} now={now} timeZone={organization.timeZone} short />
            </td>
            <td className="number">
              {mayBeRevoked(invitation, now) && (
                <button type="button" onClick={() => setRevoking(invitation)}>
                  {texts.people.revoke}
                </button>
              )}
            </td>
          </tr>
        )}
      </ListTable>
      <Pager meta={invitations.data?.meta} onPage={setPage} />
      {revoking !== null && (
        <Confirm
          title={texts.people.revokeTitle(revoking.email)}
          consequence={texts.people.revokeConsequence(organization.name)}
          name={revoking.email}
          action={texts.people.revoke}
          run={async () => {
            const params = { header, path: { id: revoking.id } };
            await dataOf(api.DELETE("/api/v1/invitations/{id}", { params })).finally(reload);
          }}
          onClose={() => setRevoking(null)}
        />
      )}
    </Section>
  );
}
