import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { apiOf, dataOf } from "../api/client";
import { useTexts } from "../i18n";
import { type Plant, type PlantChanges, plantChanges } from "../plants";
import { nameAmong } from "../template-choice";
import { templatesOfAllLevelsQuery } from "../templates";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { Field, NumberField, TimeZoneField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";
import { useSaving } from "../ui/saving";

interface Props {
  plant: Plant;
  onClose: () => void;
}

/** The form of a plant's name, place and links. Without a place of its own, a plant has the one that its ESM reports. */
export function PlantDialog({ plant, onClose }: Props) {
  const texts = useTexts();
  const templates = useQuery(templatesOfAllLevelsQuery);
  // The plant is read again while the form is open. Compared with that, fields left as they are would undo changes by others.
  const [shown] = useState(plant);
  const send = (body: PlantChanges) =>
    dataOf(apiOf(plant.organizationId).PATCH("/api/v1/plants/{id}", { params: { path: { id: plant.id } }, body }));
  const save = useSaving(plant.organizationId, send, onClose);
  return (
    <Dialog title={texts.admin.changeNamed(shown.name)} onClose={onClose} isKept={save.isPending}>
      <Form onSubmit={(values) => save.mutate(plantChanges(shown, values))}>
        <Field label={texts.newPlant.name} name="name" required maxLength={100} defaultValue={shown.name} />
        <Field
          label={texts.newPlant.serialNumber}
          name="serialNumber"
          required
          maxLength={50}
          defaultValue={shown.serialNumber}
        />
        <div className="fields">
          <NumberField
            label={texts.plant.latitude}
            name="latitude"
            min={-90}
            max={90}
            defaultValue={shown.latitude ?? ""}
          />
          <NumberField
            label={texts.plant.longitude}
            name="longitude"
            min={-180}
            max={180}
            defaultValue={shown.longitude ?? ""}
          />
        </div>
        <TimeZoneField defaultValue={shown.timeZone ?? ""} placeholder={shown.effectiveTimeZone} />
        <Field label={texts.plant.tag} name="tag" maxLength={120} defaultValue={shown.tag ?? ""} />
        <label>
          {texts.plant.template}
          <select name="templateId" defaultValue={shown.templateId ?? ""}>
            <option value="">{texts.devices.noTemplate}</option>
            {/* The list may be older than the template that the plant has, or not loaded yet. */}
            {shown.template && (
              <option value={shown.template.id}>
                {nameAmong(shown.template, templates.data ?? [], texts.templates.version)}
              </option>
            )}
            {templates.data
              ?.filter(({ id, level }) => level === "PLANT" && id !== shown.templateId)
              .map((template) => (
                <option key={template.id} value={template.id}>
                  {nameAmong(template, templates.data, texts.templates.version)}
                </option>
              ))}
          </select>
        </label>
        <Field
          label={texts.sandbox.externalId}
          name="externalPlantId"
          maxLength={120}
          defaultValue={shown.externalPlantId ?? ""}
        />
        <Failure error={templates.error ?? save.error} />
        <Buttons action={texts.save} disabled={save.isPending} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}
