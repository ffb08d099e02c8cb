import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { apiOf, dataOf, inOrganization } from "../api/client";
import { useTexts } from "../i18n";
import type { Plant } from "../plants";
import { Confirm } from "../ui/dialog";

const route = getRouteApi("/inside/o/$slug/plants/$plantId");

/** A dialog that deletes a plant, after its name was typed. */
export function PlantDeletion({ plant, onClose }: { plant: Plant; onClose: () => void }) {
  const texts = useTexts();
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const { organization } = route.useRouteContext();
  return (
    <Confirm
      title={texts.groups.deleteTitle(plant.name)}
      consequence={texts.plant.deleteConsequence}
      name={plant.name}
      action={texts.groups.delete}
      run={async () => {
        const params = { header: inOrganization(organization.id), path: { id: plant.id } };
        await dataOf(apiOf(organization.id).DELETE("/api/v1/plants/{id}", { params }));
        await navigate({ to: "/o/$slug/fleet", params: { slug: organization.slug } });
        await queryClient.invalidateQueries({ queryKey: [organization.id] });
      }}
      onClose={onClose}
    />
  );
}
