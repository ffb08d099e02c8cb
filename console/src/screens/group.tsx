import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { apiOf, dataOf } from "../api/client";
import { groupQuery, membersOfGroupQuery } from "../groups";
import { useTexts } from "../i18n";
import { mayAct } from "../session";
import { Failure } from "../ui/failure";
import { More } from "../ui/more";
import { useNow } from "../ui/now";
import { PlantCells } from "../ui/plant-cells";
import { Section } from "../ui/section";
import { SubPageHead } from "../ui/sub-page-head";
import { ListTable } from "../ui/table";
import { PlantSearch } from "./plant-search";

const route = getRouteApi("/inside/o/$slug/groups/$groupId");

/** The plants of a group, and a search to add others. */
export function GroupScreen() {
  const texts = useTexts();
  const now = useNow(1);
  const queryClient = useQueryClient();
  const { slug, groupId } = route.useParams();
  const { user, organization } = route.useRouteContext();
  const mayChange = mayAct(user, organization, "OPERATOR");
  const group = useQuery(groupQuery(organization.id, groupId));
  const members = useInfiniteQuery(membersOfGroupQuery(organization.id, groupId));
  const plants = members.data?.pages.flatMap(({ data }) => data);
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
      <SubPageHead title={group.data?.name ?? texts.groups.group} organization={organization}>
        <Link to="/o/$slug/groups" params={{ slug }}>
          {texts.groups.title}
        </Link>
      </SubPageHead>
      <div className="toolbar">
        <Link to="/o/$slug/fleet" params={{ slug }} search={{ groupId }} className="button">
          {texts.groups.inFleet}
        </Link>
      </div>
      <Failure error={members.error ?? add.error ?? remove.error} />
      {mayChange && (
        <Section title={texts.groups.add} isCard>
          <PlantSearch organizationId={organization.id} label={texts.fleet.search}>
            {({ id, name, serialNumber }) => (
              <>
                <span className="grow">
                  {name} <span className="fine">{serialNumber}</span>
                </span>
                {ids.has(id) ? (
                  <span className="fine">{texts.groups.isMember}</span>
                ) : (
                  <button type="button" onClick={() => add.mutate(id)} disabled={add.isPending}>
                    {texts.groups.addNamed(name)}
                  </button>
                )}
              </>
            )}
          </PlantSearch>
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
            <PlantCells slug={slug} plant={plant} now={now} timeZone={organization.timeZone} />
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
