import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { apiOf, dataOf, inOrganization } from "../api/client";
import { useTexts } from "../i18n";
import type { Plant } from "../plants";
import { mayAct } from "../session";
import { Confirm } from "../ui/dialog";
import { lazyPart } from "../ui/lazy-part";

const route = getRouteApi("/inside/o/$slug/plants/$plantId");
const PlantDialog = lazyPart(async () => (await import("./plant-dialog")).PlantDialog);

/** Buttons that change a plant itself, for those who may. */
export function PlantActions({ plant }: { plant: Plant }) {
  const texts = useTexts();
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const { user, organization } = route.useRouteContext();
  const [open, setOpen] = useState<"change" | "delete" | null>(null);
  const close = () => setOpen(null);
  if (!mayAct(user, organization, "OPERATOR")) return null;
  return (
    <div className="toolbar">
      <button type="button" onClick={() => setOpen("change")}>
        {texts.admin.change}
      </button>
      {mayAct(user, organization, "ORG_ADMIN") && (
        <button type="button" className="danger" onClick={() => setOpen("delete")}>
          {texts.groups.delete}
        </button>
      )}
      <Suspense>{open === "change" && <PlantDialog plant={plant} onClose={close} />}</Suspense>
      {open === "delete" && (
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
          onClose={close}
        />
      )}
    </div>
  );
}
