import { useMemo } from "react";
import type { components } from "../api/schema";
import type { DeviceTemplate } from "../devices";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { useRegistration } from "../registration";
import { nameAmong, templateFor } from "../template-choice";
import { Failure } from "../ui/failure";

interface Props {
  organizationId: string;
  plantId: string;
  device: components["schemas"]["UnregisteredDevice"];
  templates: DeviceTemplate[];
  mayRegister: boolean;
  /** Called when the user wants to choose the name and the template. */
  onChoose: () => void;
}

/** A device that the plant sends values of but that is not registered, with the template that reads all its fields. */
export function UnknownDevice({ organizationId, plantId, device, templates, mayRegister, onChoose }: Props) {
  const texts = useTexts();
  const locale = useLocale();
  const register = useRegistration(organizationId, plantId);
  const { externalId, fields } = device;
  // The page is drawn again each second, and a plant may name a thousand such devices.
  const choice = useMemo(() => templateFor(fields, templates), [fields, templates]);
  return (
    <div className="hint">
      <div className="toolbar">
        <span className="grow">{texts.devices.unknown(externalId, count(device.count, locale), device.count)}</span>
        {mayRegister && choice?.unread.length === 0 && (
          <button
            type="button"
            disabled={register.isPending}
            onClick={() => register.mutate({ externalId, name: externalId, template: choice.template })}
          >
            {texts.devices.registerAs(externalId, nameAmong(choice.template, templates, texts.templates.version))}
          </button>
        )}
        {mayRegister && (
          <button type="button" disabled={register.isPending} onClick={onChoose}>
            {texts.devices.registerNamed(externalId)}
          </button>
        )}
      </div>
      {fields.length > 0 && <p className="fine">{texts.devices.fields(fields.join(", "))}</p>}
      <Failure error={register.error} />
    </div>
  );
}
