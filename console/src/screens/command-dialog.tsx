import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useId, useState } from "react";
import { apiOf, dataOf, forgetUnanswered } from "../api/client";
import { type Action, commandsQuery, type Parameter, type SubDevice, valuesOf } from "../devices";
import { useTexts } from "../i18n";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { CheckField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";

interface Props {
  device: SubDevice;
  /** The actions of the device's template; at least one. */
  actions: Action[];
  onClose: () => void;
}

/** Send a command to a device, with a field for each parameter that the template declares. */
export function CommandDialog({ device, actions: newest, onClose }: Props) {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const { organizationId, plantId, externalId } = device;
  // The template is read again while the form is open: the chosen place might then have another action, or none.
  const [actions] = useState(newest);
  const [chosen, setChosen] = useState(0);
  const action = actions[chosen] as Action;
  // As stored: a template that was written without parameters has no such member.
  const parameters = action.params ?? [];
  // A command ends by itself. What a former dialog sent without a response says nothing about what is meant in this one.
  useEffect(() => forgetUnanswered("/commands"), []);
  const send = useMutation({
    mutationFn: (form: FormData) =>
      dataOf(
        apiOf(organizationId).POST("/api/v1/plants/{plantId}/sub-devices/{externalId}/commands", {
          params: { path: { plantId, externalId } },
          body: { action: action.action, params: valuesOf(parameters, form) },
        }),
      ),
    onSuccess: async () => {
      await queryClient.invalidateQueries(commandsQuery(organizationId, plantId));
      onClose();
    },
  });
  return (
    <Dialog title={texts.devices.commandTo(device.name)} onClose={onClose} isKept={send.isPending}>
      <Form onSubmit={(values) => send.mutate(values)}>
        <label>
          {texts.devices.action}
          <select value={chosen} onChange={(event) => setChosen(Number(event.target.value))}>
            {actions.map(({ action: name, label }, index) => (
              <option key={name} value={index}>
                {texts.templates.labelOf(label ?? name)}
              </option>
            ))}
          </select>
        </label>
        {parameters.map((parameter) => (
          <ParameterField key={`${action.action}.${parameter.name}`} parameter={parameter} />
        ))}
        <p className="fine">{texts.devices.expires(action.timeoutSeconds ?? 30)}</p>
        <Failure error={send.error} />
        <Buttons action={texts.devices.send} disabled={send.isPending} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}

function ParameterField({ parameter }: { parameter: Parameter }) {
  const texts = useTexts();
  const id = useId();
  const { name, type, unit, min, max, maxLength } = parameter;
  const required = parameter.required ?? true;
  if (type === "boolean" && required) {
    return <CheckField name={name}>{name}</CheckField>;
  }
  return (
    <div className="field">
      <label htmlFor={id}>{unit === undefined ? name : `${name} (${unit})`}</label>
      {type === "enum" ? (
        <select id={id} name={name} required={required}>
          {!required && <option value="">{texts.devices.notSent}</option>}
          {parameter.enum?.map((value) => (
            <option key={value}>{value}</option>
          ))}
        </select>
      ) : type === "boolean" ? (
        <select id={id} name={name}>
          <option value="">{texts.devices.notSent}</option>
          <option value="true">{texts.templates.bitValue(true)}</option>
          <option value="false">{texts.templates.bitValue(false)}</option>
        </select>
      ) : type === "string" ? (
        <input id={id} name={name} maxLength={maxLength} required={required} />
      ) : (
        <input
          id={id}
          name={name}
          type="number"
          step={type === "integer" ? 1 : "any"}
          // Whole numbers are counted from the minimum.
          min={type === "integer" && min !== undefined ? Math.ceil(min) : min}
          max={max}
          required={required}
        />
      )}
    </div>
  );
}
