import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { type Organization, organizationsQuery } from "../admin";
import { useTexts } from "../i18n";
import { Failure } from "../ui/failure";
import { Pager } from "../ui/pager";
import { SearchField } from "../ui/search-field";
import { ListTable } from "../ui/table";

interface Props {
  /** Return the buttons of an organisation. */
  children: (organization: Organization) => ReactNode;
}

/** A searchable list of all organisations, with buttons for each. */
export function OrganizationFinder({ children }: Props) {
  const texts = useTexts();
  const [search, setSearch] = useState<{ q?: string | undefined; page?: number }>({});
  const { data, error } = useQuery(organizationsQuery(search));
  return (
    <>
      <search className="toolbar">
        <SearchField label={texts.admin.searchOrganizations} value={search.q} onSearch={(q) => setSearch({ q })} />
      </search>
      <Failure error={error} />
      <ListTable
        rows={data?.data}
        none={texts.admin.noOrganizationFound}
        headings={[texts.menu.organization, { label: texts.admin.actions, kind: "hidden" }]}
      >
        {(organization) => (
          <tr key={organization.id}>
            <th scope="row">
              {organization.name}
              <span className="fine">{organization.slug}</span>
            </th>
            <td className="number">{children(organization)}</td>
          </tr>
        )}
      </ListTable>
      <Pager meta={data?.meta} onPage={(page) => setSearch({ ...search, page })} />
    </>
  );
}
