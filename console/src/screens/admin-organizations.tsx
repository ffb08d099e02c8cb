import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Organization, organizationsQuery } from "../admin";
import { api, dataOf } from "../api/client";
import { changesOf, fieldText } from "../form-data";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { Age } from "../ui/age";
import { Confirm, Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { Field, TimeZoneField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";
import { useNow } from "../ui/now";
import { PageHead } from "../ui/page-head";
import { Pager } from "../ui/pager";
import { SearchField } from "../ui/search-field";
import { ListTable } from "../ui/table";
import { Total } from "../ui/total";

const route = getRouteApi("/inside/admin/organizations");

/** All organisations: created, changed and deleted. */
export function OrganizationsScreen() {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(10);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const queryClient = useQueryClient();
  const list = useQuery(organizationsQuery(search));
  // null: a new one.
  const [editing, setEditing] = useState<Organization | null | undefined>();
  const [deleting, setDeleting] = useState<Organization | null>(null);
  return (
    <>
      <PageHead title={texts.admin.organizations} of="Gridfleet">
        <button type="button" className="primary" onClick={() => setEditing(null)}>
          {texts.admin.newOrganization}
        </button>
      </PageHead>
      <search className="toolbar">
        <SearchField
          label={texts.admin.searchOrganizations}
          value={search.q}
          onSearch={(q) => navigate({ search: { q }, replace: true })}
        />
      </search>
      <Failure error={list.error} />
      <Total total={list.data?.meta.total} text={texts.admin.countOrganizations} />
      <ListTable
        rows={list.data?.data}
        headings={[
          texts.menu.organization,
          { label: texts.people.members, kind: "number" },
          { label: texts.groups.plants, kind: "number" },
          texts.newPlant.timeZone,
          texts.admin.created,
          { label: texts.admin.actions, kind: "hidden" },
        ]}
      >
        {(one) => (
          <tr key={one.id}>
            <th scope="row">
              <Link to="/o/$slug/fleet" params={{ slug: one.slug }}>
                {one.name}
              </Link>
              <span className="fine">{one.slug}</span>
            </th>
            <td className="number">{count(one.memberCount, locale)}</td>
            <td className="number">{count(one.plantCount, locale)}</td>
            <td>{one.timeZone}</td>
            <td>
              <Age time={one.createdAt} now={now} timeZone="UTC" short />
            </td>
            <td>
              <div className="toolbar actions">
                <button type="button" onClick={() => setEditing(one)} aria-label={texts.admin.changeNamed(one.name)}>
                  {texts.admin.change}
                </button>
                <button type="button" onClick={() => setDeleting(one)} aria-label={texts.admin.deleteNamed(one.name)}>
                  {texts.groups.delete}
                </button>
              </div>
            </td>
          </tr>
        )}
      </ListTable>
      <Pager meta={list.data?.meta} onPage={(page) => navigate({ search: (before) => ({ ...before, page }) })} />
      {editing !== undefined && <Editor organization={editing} onClose={() => setEditing(undefined)} />}
      {deleting !== null && (
        <Confirm
          title={texts.groups.deleteTitle(deleting.name)}
          consequence={texts.admin.deleteConsequence}
          name={deleting.name}
          action={texts.groups.delete}
          run={async () => {
            await dataOf(api.DELETE("/api/v1/organizations/{id}", { params: { path: { id: deleting.id } } }));
            await queryClient.invalidateQueries({ queryKey: ["organizations"] });
          }}
          onClose={() => setDeleting(null)}
        />
      )}
    </>
  );
}

/** The form of an organisation; null: of a new one. */
function Editor({ organization, onClose }: { organization: Organization | null; onClose: () => void }) {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const save = useMutation({
    mutationFn: async (values: FormData) => {
      const text = (name: string) => fieldText(values, name);
      const body = {
        name: text("name"),
        slug: text("slug"),
        timeZone: text("timeZone") || "UTC",
        description: text("description"),
      };
      if (organization === null) await dataOf(api.POST("/api/v1/organizations", { body }));
      else {
        const params = { path: { id: organization.id } };
        const shown = { ...organization, description: organization.description ?? "" };
        await dataOf(api.PATCH("/api/v1/organizations/{id}", { params, body: changesOf(shown, body) }));
      }
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["organizations"] });
      onClose();
    },
  });
  return (
    <Dialog
      title={organization === null ? texts.admin.newOrganization : texts.admin.changeNamed(organization.name)}
      onClose={onClose}
      isKept={save.isPending}
    >
      <Form onSubmit={(values) => save.mutate(values)}>
        <Field
          label={texts.people.name}
          name="name"
          required
          minLength={2}
          maxLength={100}
          defaultValue={organization?.name}
        />
        <Field
          label={texts.admin.slug}
          name="slug"
          required
          minLength={2}
          maxLength={50}
          pattern="[a-z0-9]+(-[a-z0-9]+)*"
          title={texts.admin.slugHelp}
          defaultValue={organization?.slug}
        />
        {organization !== null && <p className="hint">{texts.admin.slugChange}</p>}
        <TimeZoneField defaultValue={organization?.timeZone} placeholder="UTC" />
        <Field
          label={texts.admin.description}
          name="description"
          maxLength={500}
          defaultValue={organization?.description ?? ""}
        />
        <Failure error={save.error} />
        <Buttons action={texts.save} disabled={save.isPending} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}
