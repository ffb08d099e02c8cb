import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { DEVICE_TYPES, type DeviceType, templatesQuery } from "../devices";
import { useTexts } from "../i18n";
import { useRegistration } from "../registration";
import { nameAmong, templateFor, unreadBy } from "../template-choice";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { Field, SelectField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";

interface Props {
  organizationId: string;
  plantId: string;
  /** The name in the plant's messages; "" if the user enters it. */
  externalId: string;
  /** Names of the fields in the plant's messages; empty if they are not known. */
  fields: string[];
  onClose: () => void;
}

/** Register a sub-device. Its template says how its values are read. */
export function RegisterDialog({ organizationId, plantId, externalId, fields, onClose }: Props) {
  const texts = useTexts();
  const templates = useQuery(templatesQuery);
  // Until the user chooses, it is the template that reads the device's fields.
  const [chosenId, setChosenId] = useState<string | null>(null);
  const templateId = chosenId ?? templateFor(fields, templates.data ?? [])?.template.id ?? "";
  const template = templates.data?.find(({ id }) => id === templateId);
  const unread = template ? unreadBy(template, fields) : [];
  const register = useRegistration(organizationId, plantId);
  const submit = (form: FormData) =>
    register.mutate(
      {
        externalId: String(form.get("externalId")),
        name: String(form.get("name")),
        ...(template ? { template } : { type: String(form.get("type")) as DeviceType }),
      },
      { onSuccess: onClose },
    );
  return (
    <Dialog title={texts.devices.register} onClose={onClose} isKept={register.isPending}>
      <Form onSubmit={submit}>
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
          <select value={templateId} onChange={(event) => setChosenId(event.target.value)}>
            <option value="">{texts.devices.noTemplate}</option>
            {templates.data?.map((one) => (
              <option key={one.id} value={one.id}>
                {nameAmong(one, templates.data, texts.templates.version)}
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
        {unread.length > 0 && <p className="fine">{texts.devices.unread(unread.join(", "))}</p>}
        <Failure error={templates.error ?? register.error} />
        <Buttons action={texts.devices.register} disabled={register.isPending} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}
