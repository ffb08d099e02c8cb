import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { apiOf, dataOf } from "../api/client";
import { useTexts } from "../i18n";
import { type Plant, type PlantChanges, plantChanges } from "../plants";
import { templatesOfAllLevelsQuery } from "../templates";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { Field, NumberField, TimeZoneField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";

interface Props {
  plant: Plant;
  onClose: () => void;
}

/** The form of a plant's name, place and links. Empty fields of a place show what its ESM reports. */
export function PlantDialog({ plant, onClose }: Props) {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const templates = useQuery(templatesOfAllLevelsQuery);
  const save = useMutation({
    mutationFn: async (body: PlantChanges) => {
      if (Object.keys(body).length === 0) return;
      const params = { path: { id: plant.id } };
      await dataOf(apiOf(plant.organizationId).PATCH("/api/v1/plants/{id}", { params, body }));
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: [plant.organizationId] });
      onClose();
    },
  });
  return (
    <Dialog title={texts.admin.changeNamed(plant.name)} onClose={onClose}>
      <Form onSubmit={(values) => save.mutate(plantChanges(plant, values))}>
        <Field label={texts.newPlant.name} name="name" required maxLength={100} defaultValue={plant.name} />
        <Field
          label={texts.newPlant.serialNumber}
          name="serialNumber"
          required
          maxLength={50}
          defaultValue={plant.serialNumber}
        />
        <div className="fields">
          <NumberField
            label={texts.plant.latitude}
            name="latitude"
            min={-90}
            max={90}
            defaultValue={plant.latitude ?? ""}
          />
          <NumberField
            label={texts.plant.longitude}
            name="longitude"
            min={-180}
            max={180}
            defaultValue={plant.longitude ?? ""}
          />
        </div>
        <TimeZoneField defaultValue={plant.timeZone ?? ""} placeholder={plant.effectiveTimeZone} />
        <Field label={texts.plant.tag} name="tag" maxLength={120} defaultValue={plant.tag ?? ""} />
        <label>
          {texts.plant.template}
          {/* Its default is known as soon as the templates are. */}
          <select key={templates.dataUpdatedAt} name="templateId" defaultValue={plant.templateId ?? ""}>
            <option value="">{texts.devices.noTemplate}</option>
            {templates.data
              ?.filter(({ level }) => level === "PLANT")
              .map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
          </select>
        </label>
        <Field
          label={texts.sandbox.externalId}
          name="externalPlantId"
          maxLength={120}
          defaultValue={plant.externalPlantId ?? ""}
        />
        <Failure error={templates.error ?? save.error} />
        <Buttons action={texts.save} disabled={save.isPending || templates.data === undefined} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}
