import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { apiOf, dataOf } from "../api/client";
import { DEVICE_TYPES, type DeviceType, templatesQuery } from "../devices";
import { useTexts } from "../i18n";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { Field, SelectField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";

interface Props {
  organizationId: string;
  plantId: string;
  /** The name in the plant's messages; "" if the user enters it. */
  externalId: string;
  onClose: () => void;
}

/** Register a sub-device. Its template says how its values are read. */
export function RegisterDialog({ organizationId, plantId, externalId, onClose }: Props) {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const templates = useQuery(templatesQuery);
  const [templateId, setTemplateId] = useState("");
  const template = templates.data?.find(({ id }) => id === templateId);
  const register = useMutation({
    mutationFn: (form: FormData) =>
      dataOf(
        apiOf(organizationId).POST("/api/v1/plants/{plantId}/sub-devices", {
          params: { path: { plantId } },
          body: {
            externalId: String(form.get("externalId")),
            name: String(form.get("name")),
            // A device with a template is of the template's type.
            type: template?.type ?? (String(form.get("type")) as DeviceType),
            metadata: {},
            ...(template && { templateId: template.id }),
          },
        }),
      ),
    onSuccess: async () => {
      await Promise.all(
        ["sub-devices", "unregistered"].map((kind) =>
          queryClient.invalidateQueries({ queryKey: [organizationId, kind, plantId] }),
        ),
      );
      onClose();
    },
  });
  return (
    <Dialog title={texts.devices.register} onClose={onClose}>
      <Form onSubmit={(values) => register.mutate(values)}>
        <Field
          label={texts.messages.device}
          name="externalId"
          defaultValue={externalId}
          readOnly={externalId !== ""}
          required
        />
        <Field label={texts.devices.name} name="name" defaultValue={externalId} required />
        <label>
          {texts.devices.template}
          <select value={templateId} onChange={(event) => setTemplateId(event.target.value)}>
            <option value="">{texts.devices.noTemplate}</option>
            {templates.data?.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        {template === undefined && (
          <SelectField label={texts.devices.type} name="type" values={DEVICE_TYPES} labels={texts.devices.types} />
        )}
        <p className="fine">
          {template ? texts.devices.signals(template.signals.length) : texts.devices.withoutTemplate}
        </p>
        <Failure error={templates.error ?? register.error} />
        <Buttons action={texts.devices.register} disabled={register.isPending} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}
