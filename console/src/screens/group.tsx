import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { apiOf, dataOf } from "../api/client";
import { foundPlantsQuery, groupsQuery, membersOfGroupQuery } from "../groups";
import { useTexts } from "../i18n";
import { mayAct } from "../session";
import { Age } from "../ui/age";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { More } from "../ui/more";
import { useNow } from "../ui/now";
import { PlantHeading } from "../ui/plant-heading";
import { Section } from "../ui/section";
import { PlantState } from "../ui/state";
import { SubPageHead } from "../ui/sub-page-head";
import { ListTable } from "../ui/table";

const route = getRouteApi("/inside/o/$slug/groups/$groupId");

/** The plants of a group, and a search to add others. */
export function GroupScreen() {
  const texts = useTexts();
  const now = useNow(1);
  const queryClient = useQueryClient();
  const { slug, groupId } = route.useParams();
  const { user, organization } = route.useRouteContext();
  const mayChange = mayAct(user, organization, "OPERATOR");
  const group = useQuery(groupsQuery(organization.id)).data?.data.find(({ id }) => id === groupId);
  const members = useInfiniteQuery(membersOfGroupQuery(organization.id, groupId));
  const plants = members.data?.pages.flatMap(({ data }) => data);
  const [q, setQ] = useState("");
  const found = useQuery(foundPlantsQuery(organization.id, q.trim()));
  const ids = new Set(plants?.map(({ id }) => id));
  const call = apiOf(organization.id);
  const params = { path: { id: groupId } };
  const reload = () => queryClient.invalidateQueries({ queryKey: [organization.id, "groups"] });
  const add = useMutation({
    mutationFn: (plantId: string) =>
      dataOf(call.POST("/api/v1/plant-groups/{id}/plants", { params, body: { plantIds: [plantId] } })),
    onSuccess: reload,
  });
  const remove = useMutation({
    mutationFn: (plantId: string) =>
      dataOf(call.DELETE("/api/v1/plant-groups/{id}/plants", { params, body: { plantIds: [plantId] } })),
    onSuccess: reload,
  });
  return (
    <>
      <SubPageHead title={group?.name ?? texts.groups.group} organization={organization}>
        <Link to="/o/$slug/groups" params={{ slug }}>
          {texts.groups.title}
        </Link>
      </SubPageHead>
      <Failure error={members.error ?? found.error ?? add.error ?? remove.error} />
      {mayChange && (
        <Section title={texts.groups.add} isCard>
          <Field
            label={texts.fleet.search}
            type="search"
            value={q}
            maxLength={100}
            onChange={(event) => setQ(event.target.value)}
          />
          {found.data?.data.length === 0 && <p className="fine">{texts.fleet.none}</p>}
          <ul className="found">
            {found.data?.data.map((plant) => (
              <li key={plant.id} className="toolbar">
                <span className="grow">
                  {plant.name} <span className="fine">{plant.serialNumber}</span>
                </span>
                {ids.has(plant.id) ? (
                  <span className="fine">{texts.groups.isMember}</span>
                ) : (
                  <button type="button" onClick={() => add.mutate(plant.id)} disabled={add.isPending}>
                    {texts.groups.addNamed(plant.name)}
                  </button>
                )}
              </li>
            ))}
          </ul>
        </Section>
      )}
      <ListTable
        rows={plants}
        none={texts.groups.empty}
        headings={[
          texts.fleet.name,
          texts.fleet.status,
          texts.fleet.lastSeen,
          { label: texts.groups.remove, kind: "hidden" },
        ]}
      >
        {(plant) => (
          <tr key={plant.id}>
            <PlantHeading slug={slug} plant={plant} />
            <td>
              <PlantState status={plant.status} />
            </td>
            <td>
              <Age time={plant.lastSeenAt} now={now} timeZone="UTC" short />
            </td>
            <td className="number">
              {mayChange && (
                <button type="button" onClick={() => remove.mutate(plant.id)} disabled={remove.isPending}>
                  {texts.groups.remove}
                </button>
              )}
            </td>
          </tr>
        )}
      </ListTable>
      <More list={members} />
    </>
  );
}
