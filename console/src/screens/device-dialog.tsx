import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { apiOf, dataOf } from "../api/client";
import {
  type DeviceTemplate,
  type SubDevice,
  type SubDeviceChanges,
  subDeviceChanges,
  templatesQuery,
} from "../devices";
import { useTexts } from "../i18n";
import { nameAmong } from "../template-choice";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { Buttons, Form } from "../ui/form";
import { useSaving } from "../ui/saving";

/** The form of a sub-device's names and template. Its external id and its type stay: values and rules refer to them. */
export function DeviceDialog({ device, onClose }: { device: SubDevice; onClose: () => void }) {
  const texts = useTexts();
  const templates = useQuery(templatesQuery);
  // The device is read again while the form is open. Compared with that, fields left as they are would undo changes by others.
  const [shown] = useState(device);
  const { organizationId, plantId, externalId, templateId } = shown;
  const send = (body: SubDeviceChanges) => {
    const params = { path: { plantId, externalId } };
    return dataOf(apiOf(organizationId).PATCH("/api/v1/plants/{plantId}/sub-devices/{externalId}", { params, body }));
  };
  const current = templates.data?.find(({ id }) => id === templateId);
  const nameOf = (template: DeviceTemplate) => nameAmong(template, templates.data ?? [], texts.templates.version);
  const save = useSaving(organizationId, send, onClose);
  return (
    <Dialog title={texts.admin.changeNamed(shown.name)} onClose={onClose} isKept={save.isPending}>
      <Form onSubmit={(values) => save.mutate(subDeviceChanges(shown, values))}>
        <Field label={texts.devices.name} name="name" required maxLength={255} defaultValue={shown.name} />
        <Field
          label={texts.newPlant.serialNumber}
          name="serialNumber"
          maxLength={64}
          defaultValue={shown.serialNumber ?? ""}
        />
        <label>
          {texts.devices.template}
          <select name="templateId" defaultValue={templateId ?? ""}>
            {/* The list may be older than the template that the device has, or not loaded yet. */}
            <option value={templateId ?? ""}>
              {current ? nameOf(current) : (templateId ?? texts.devices.noTemplate)}
            </option>
            {templates.data
              ?.filter(({ id, type }) => type === shown.type && id !== templateId)
              .map((template) => (
                <option key={template.id} value={template.id}>
                  {nameOf(template)}
                </option>
              ))}
          </select>
        </label>
        <Failure error={templates.error ?? save.error} />
        <Buttons action={texts.save} disabled={save.isPending} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}
