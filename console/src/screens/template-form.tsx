import { useMutation, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, dataOf } from "../api/client";
import { type Action, DEVICE_TYPES, type DeviceTemplate, type DeviceType } from "../devices";
import { changesOf } from "../form-data";
import { useTexts } from "../i18n";
import type { Signal } from "../signals";
import { LEVELS, signalsOf, type TemplateLevel } from "../templates";
import { Failure } from "../ui/failure";
import { Field, SelectField, TextField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";
import { ListTable } from "../ui/table";
import { SignalCells } from "./signal-cells";
import { SignalDialog } from "./signal-dialog";

interface Props {
  /** The template to change, or whose signals and actions a new one begins with. */
  source: DeviceTemplate | null;
  isNew: boolean;
}

/** The fields of a template. Its actions are entered as JSON, as the API has them. */
export function TemplateForm({ source: newest, isNew }: Props) {
  const texts = useTexts();
  // The template is read again while the form is open.
  const [source] = useState(newest);
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const { slug } = getRouteApi("/inside/o/$slug").useParams();
  const [signals, setSignals] = useState<readonly Signal[]>(source ? signalsOf(source) : []);
  // The index of the signal that is edited; the number of signals for a new one.
  const [editing, setEditing] = useState<number | null>(null);
  const save = useMutation({
    mutationFn: (form: FormData) => {
      const name = String(form.get("name"));
      const content = { name, signals: [...signals], actions: actionsIn(String(form.get("actions"))) };
      if (!isNew && source) {
        const params = { path: { id: source.id } };
        return dataOf(api.PATCH("/api/v1/device-templates/{id}", { params, body: changesOf(source, content) }));
      }
      const [type, level] = [form.get("type") as DeviceType, form.get("level") as TemplateLevel];
      return dataOf(api.POST("/api/v1/device-templates", { body: { ...content, type, level, version: 1 } }));
    },
    onSuccess: async ({ id }) => {
      await queryClient.invalidateQueries({ queryKey: ["templates"] });
      await navigate({ to: "/o/$slug/templates/$templateId", params: { slug, templateId: id } });
    },
  });
  return (
    <>
      <Form className="card" onSubmit={(values) => save.mutate(values)}>
        <div className="fields">
          <Field
            label={texts.devices.name}
            name="name"
            required
            maxLength={120}
            defaultValue={isNew ? "" : source?.name}
          />
          <SelectField
            label={texts.devices.type}
            name="type"
            disabled={!isNew}
            defaultValue={source?.type}
            values={DEVICE_TYPES}
            labels={texts.devices.types}
          />
          <SelectField
            label={texts.templates.level}
            name="level"
            disabled={!isNew}
            defaultValue={source?.level}
            values={LEVELS}
            labels={texts.templates.levels}
          />
        </div>
        <h2>{texts.templates.signals}</h2>
        <ListTable
          rows={signals}
          headings={[
            texts.templates.signal,
            texts.templates.field,
            texts.rules.unit,
            { label: texts.templates.edit, kind: "hidden" },
          ]}
        >
          {(signal, index) => (
            <tr key={signal.key}>
              <SignalCells signal={signal} />
              <td>{signal.unit}</td>
              <td className="number">
                <button
                  type="button"
                  aria-label={texts.templates.editNamed(signal.key)}
                  onClick={() => setEditing(index)}
                >
                  {texts.templates.edit}
                </button>{" "}
                <button
                  type="button"
                  aria-label={texts.templates.removeNamed(signal.key)}
                  onClick={() => setSignals(signals.filter((other) => other !== signal))}
                >
                  {texts.groups.remove}
                </button>
              </td>
            </tr>
          )}
        </ListTable>
        <div className="toolbar">
          <button type="button" onClick={() => setEditing(signals.length)}>
            {texts.templates.addSignal}
          </button>
        </div>
        <TextField
          label={texts.templates.actionsJson}
          name="actions"
          rows={8}
          className="code"
          spellCheck={false}
          defaultValue={JSON.stringify(source?.actions ?? [], null, 2)}
        />
        <Failure error={save.error} />
        <Buttons
          action={texts.save}
          disabled={save.isPending}
          onCancel={() => navigate({ to: "/o/$slug/templates", params: { slug } })}
        />
      </Form>
      {editing !== null && (
        <SignalDialog
          signal={signals[editing] ?? null}
          taken={signals.filter((_, index) => index !== editing).map(({ key }) => key)}
          onSave={(signal) => {
            setSignals([...signals.slice(0, editing), signal, ...signals.slice(editing + 1)]);
            setEditing(null);
          }}
          onClose={() => setEditing(null)}
        />
      )}
    </>
  );
}

/**
 * Return the actions of a text; none for no text. The service checks what they contain.
 *
 * @throws SyntaxError The text is no JSON.
 */
function actionsIn(text: string): Action[] {
  return text.trim() === "" ? [] : (JSON.parse(text) as Action[]);
}
