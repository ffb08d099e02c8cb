import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type SandboxPlant, sandboxPlantsQuery } from "../admin";
import { api, dataOf } from "../api/client";
import { changesOf, fieldText } from "../form-data";
import { useTexts } from "../i18n";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { CheckField, Field, NumberField, SelectField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";

const STATES = ["PLC_READY", "PLC_OFFLINE", "MAINTENANCE", "UNKNOWN"] as const;

interface Props {
  /** null: a new one. */
  plant: SandboxPlant | null;
  onClose: () => void;
}

/** The form of a plant of the sandbox ESM. */
export function SandboxPlantDialog({ plant, onClose }: Props) {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const save = useMutation({
    mutationFn: async (values: FormData) => {
      const text = (name: string) => fieldText(values, name);
      const body = {
        name: text("name"),
        capacityKwh: Number(text("capacity")),
        fvePeakPowerKwp: Number(text("peakPower")),
        configEnabled: values.has("configEnabled"),
      };
      if (plant === null) {
        const ids = { clientId: text("clientId"), externalPlantId: text("externalPlantId"), timeConfigs: [] };
        await dataOf(api.POST("/api/v1/svc-esm/admin/plants", { body: { ...ids, ...body } }));
        return;
      }
      const esiState = STATES.find((one) => one === values.get("esiState")) ?? plant.esiState;
      const params = { path: { id: plant.id } };
      const changes = changesOf(plant, { ...body, esiState });
      await dataOf(api.PATCH("/api/v1/svc-esm/admin/plants/{id}", { params, body: changes }));
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries(sandboxPlantsQuery);
      onClose();
    },
  });
  return (
    <Dialog
      title={plant === null ? texts.sandbox.add : texts.admin.changeNamed(plant.name)}
      onClose={onClose}
      isKept={save.isPending}
    >
      <Form onSubmit={(values) => save.mutate(values)}>
        {plant === null && (
          <>
            <Field label={texts.sandbox.clientId} name="clientId" required maxLength={120} />
            <Field label={texts.sandbox.externalId} name="externalPlantId" required maxLength={120} />
          </>
        )}
        <Field label={texts.devices.name} name="name" required maxLength={255} defaultValue={plant?.name} />
        <NumberField
          label={texts.sandbox.capacityIn}
          name="capacity"
          required
          min={0}
          defaultValue={plant?.capacityKwh ?? 10}
        />
        <NumberField
          label={texts.sandbox.peakPowerIn}
          name="peakPower"
          required
          min={0}
          defaultValue={plant?.fvePeakPowerKwp ?? 10}
        />
        {plant !== null && (
          <SelectField
            label={texts.sandbox.state}
            name="esiState"
            defaultValue={plant.esiState}
            values={STATES}
            labels={texts.sandbox.states}
          />
        )}
        <CheckField name="configEnabled" defaultChecked={plant?.configEnabled ?? true}>
          {texts.sandbox.acceptsPlans}
        </CheckField>
        <Failure error={save.error} />
        <Buttons action={texts.save} disabled={save.isPending} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}
