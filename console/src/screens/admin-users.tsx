import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { type User, userQuery, usersQuery } from "../admin";
import { api, dataOf } from "../api/client";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { ACCOUNTS } from "../searches/admin";
import { Age } from "../ui/age";
import { Confirm, Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { FilterField } from "../ui/fields";
import { useNow } from "../ui/now";
import { PageHead } from "../ui/page-head";
import { Pager } from "../ui/pager";
import { SearchField } from "../ui/search-field";
import { ListTable } from "../ui/table";
import { Total } from "../ui/total";

const route = getRouteApi("/inside/admin/users");

/** All accounts, with their organisations; disabled and enabled. */
export function UsersScreen() {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(10);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { user: self } = route.useRouteContext();
  const queryClient = useQueryClient();
  const list = useQuery(usersQuery(search));
  const [shown, setShown] = useState<User | null>(null);
  const [disabling, setDisabling] = useState<User | null>(null);
  const reload = () => queryClient.invalidateQueries({ queryKey: ["users"] });
  const enable = useMutation({
    mutationFn: (id: string) => dataOf(api.POST("/api/v1/users/{id}/enable", { params: { path: { id } } })),
    onSuccess: reload,
  });
  return (
    <>
      <PageHead title={texts.admin.users} of="Gridfleet" />
      <search className="toolbar">
        <SearchField
          label={texts.people.search}
          value={search.q}
          onSearch={(q) => navigate({ search: ({ only }) => ({ only, q }), replace: true })}
        />
        <FilterField
          label={texts.admin.only}
          value={search.only}
          values={ACCOUNTS}
          labels={texts.admin.accounts}
          onChoose={(only) => navigate({ search: ({ q }) => ({ q, only }) })}
        />
      </search>
      <Failure error={list.error ?? enable.error} />
      <Total total={list.data?.meta.total} text={texts.admin.countUsers} />
      <ListTable
        rows={list.data?.data}
        headings={[
          texts.people.name,
          texts.people.role,
          { label: texts.admin.organizations, kind: "number" },
          texts.admin.created,
          { label: texts.admin.actions, kind: "hidden" },
        ]}
      >
        {(user) => (
          <tr key={user.id}>
            <th scope="row">
              {user.name}
              <span className="fine">{user.email}</span>
            </th>
            <td>
              {user.role === "ADMIN" ? "SuperAdmin" : texts.admin.user}
              {user.disabledAt !== null && (
                <span className="fine">
                  <strong>{texts.admin.disabled}</strong> <Age time={user.disabledAt} now={now} timeZone="UTC" short />
                </span>
              )}
            </td>
            <td className="number">
              {user.organizationCount === 0 ? (
                count(0, locale)
              ) : (
                <button type="button" onClick={() => setShown(user)}>
                  {texts.admin.countOrganizations(count(user.organizationCount, locale), user.organizationCount)}
                  <span className="hidden">{texts.admin.ofNamed(user.name)}</span>
                </button>
              )}
            </td>
            <td>
              <Age time={user.createdAt} now={now} timeZone="UTC" short />
            </td>
            <td className="number">
              {user.id !== self.id &&
                (user.disabledAt === null ? (
                  <button type="button" onClick={() => setDisabling(user)}>
                    {texts.admin.disable}
                  </button>
                ) : (
                  <button type="button" onClick={() => enable.mutate(user.id)} disabled={enable.isPending}>
                    {texts.admin.enable}
                  </button>
                ))}
            </td>
          </tr>
        )}
      </ListTable>
      <Pager meta={list.data?.meta} onPage={(page) => navigate({ search: (before) => ({ ...before, page }) })} />
      {shown !== null && <OrganizationsOf user={shown} onClose={() => setShown(null)} />}
      {disabling !== null && (
        <Confirm
          title={texts.admin.disableTitle(disabling.name)}
          consequence={texts.admin.disableConsequence}
          name={disabling.email}
          action={texts.admin.disable}
          run={async () => {
            await dataOf(api.POST("/api/v1/users/{id}/disable", { params: { path: { id: disabling.id } } }));
            await reload();
          }}
          onClose={() => setDisabling(null)}
        />
      )}
    </>
  );
}

/** Where a user is a member, with which role. */
function OrganizationsOf({ user, onClose }: { user: User; onClose: () => void }) {
  const texts = useTexts();
  const found = useQuery(userQuery(user.id));
  return (
    <Dialog title={texts.admin.organizationsOf(user.name)} onClose={onClose}>
      <Failure error={found.error} />
      {found.data?.organizations.length === 0 && <p className="fine">{texts.admin.noOrganizations}</p>}
      <ul className="found">
        {found.data?.organizations.map(({ id, name, slug, role }) => (
          <li key={id} className="toolbar">
            <Link to="/o/$slug/people" params={{ slug }} className="grow">
              {name}
            </Link>
            <span className="fine">{texts.role[role]}</span>
          </li>
        ))}
      </ul>
      <div className="toolbar">
        <button type="button" onClick={onClose}>
          {texts.close}
        </button>
      </div>
    </Dialog>
  );
}
