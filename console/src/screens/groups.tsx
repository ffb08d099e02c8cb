import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { apiOf, dataOf } from "../api/client";
import { count } from "../format/quantities";
import { type CountedGroup, createGroup, groupsQuery } from "../groups";
import { useLocale, useTexts } from "../i18n";
import { mayAct } from "../session";
import { Confirm } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { Form } from "../ui/form";
import { PageHead } from "../ui/page-head";
import { Pager } from "../ui/pager";
import { ListTable } from "../ui/table";
import { GroupEditor } from "./group-editor";

const route = getRouteApi("/inside/o/$slug/groups");

/** The groups of plants. */
export function GroupsScreen() {
  const texts = useTexts();
  const locale = useLocale();
  const queryClient = useQueryClient();
  const { slug } = route.useParams();
  const { page } = route.useSearch();
  const navigate = route.useNavigate();
  const { user, organization } = route.useRouteContext();
  const groups = useQuery(groupsQuery(organization.id, page));
  const [editing, setEditing] = useState<CountedGroup | null>(null);
  const [deleting, setDeleting] = useState<CountedGroup | null>(null);
  const reload = () => queryClient.invalidateQueries({ queryKey: [organization.id, "groups"] });
  const create = useMutation({
    mutationFn: (name: string) => createGroup(organization.id, name),
    onSuccess: reload,
  });
  const mayChange = mayAct(user, organization, "OPERATOR");
  return (
    <>
      <PageHead title={texts.groups.title} of={organization.name} />
      {mayChange && (
        <Form
          className="toolbar"
          onSubmit={(values, form) => create.mutate(String(values.get("name")), { onSuccess: () => form.reset() })}
        >
          <input name="name" required maxLength={100} aria-label={texts.groups.name} placeholder={texts.groups.name} />
          <button type="submit" className="primary" disabled={create.isPending}>
            {texts.groups.create}
          </button>
        </Form>
      )}
      <Failure error={groups.error ?? create.error} />
      <ListTable
        rows={groups.data?.data}
        none={texts.groups.none}
        headings={[
          texts.groups.group,
          { label: texts.groups.plants, kind: "number" },
          { label: texts.admin.actions, kind: "hidden" },
        ]}
      >
        {(group) => (
          <tr key={group.id}>
            <th scope="row">
              <Link to="/o/$slug/groups/$groupId" params={{ slug, groupId: group.id }}>
                {group.name}
              </Link>
              <span className="fine">{group.description}</span>
            </th>
            <td className="number">{count(group.plantCount, locale)}</td>
            <td>
              {mayChange && (
                <div className="toolbar actions">
                  <button
                    type="button"
                    onClick={() => setEditing(group)}
                    aria-label={texts.admin.changeNamed(group.name)}
                  >
                    {texts.admin.change}
                  </button>
                  <button
                    type="button"
                    onClick={() => setDeleting(group)}
                    aria-label={texts.admin.deleteNamed(group.name)}
                  >
                    {texts.groups.delete}
                  </button>
                </div>
              )}
            </td>
          </tr>
        )}
      </ListTable>
      <Pager meta={groups.data?.meta} onPage={(next) => navigate({ search: { page: next } })} />
      {editing !== null && (
        <GroupEditor organizationId={organization.id} group={editing} onClose={() => setEditing(null)} />
      )}
      {deleting !== null && (
        <Confirm
          title={texts.groups.deleteTitle(deleting.name)}
          consequence={texts.groups.deleteConsequence}
          name={deleting.name}
          action={texts.groups.delete}
          run={async () => {
            const params = { path: { id: deleting.id } };
            await dataOf(apiOf(organization.id).DELETE("/api/v1/plant-groups/{id}", { params }));
            await reload();
          }}
          onClose={() => setDeleting(null)}
        />
      )}
    </>
  );
}
