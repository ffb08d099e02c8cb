import { getRouteApi } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { useTexts } from "../i18n";
import type { Plant } from "../plants";
import { mayAct } from "../session";
import { lazyPart } from "../ui/lazy-part";

const route = getRouteApi("/inside/o/$slug/plants/$plantId");
const PlantDialog = lazyPart(async () => (await import("./plant-dialog")).PlantDialog);
const PlantDeletion = lazyPart(async () => (await import("./plant-deletion")).PlantDeletion);

/** Buttons that change a plant itself, for those who may. */
export function PlantActions({ plant }: { plant: Plant }) {
  const texts = useTexts();
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
      <Suspense>
        {open === "change" && <PlantDialog plant={plant} onClose={close} />}
        {open === "delete" && <PlantDeletion plant={plant} onClose={close} />}
      </Suspense>
    </div>
  );
}
