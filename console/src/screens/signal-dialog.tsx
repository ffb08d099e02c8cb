import { useState } from "react";
import { useTexts } from "../i18n";
import { SEVERITIES } from "../severities";
import { ROLES, type Signal, signalOf, symbolLines } from "../signals";
import { Dialog } from "../ui/dialog";
import { CheckField, Field, NumberField, SelectField, TextField } from "../ui/fields";
import { Buttons, Form } from "../ui/form";

interface Props {
  /** Null: a new one. */
  signal: Signal | null;
  /** The keys of the other signals. */
  taken: readonly string[];
  onSave: (signal: Signal) => void;
  onClose: () => void;
}

/** The fields of a signal. */
export function SignalDialog({ signal, taken, onSave, onClose }: Props) {
  const texts = useTexts();
  const [isBinary, setIsBinary] = useState(signal?.bit !== undefined);
  const [key, setKey] = useState(signal?.key ?? "");
  return (
    <Dialog title={signal?.key ?? texts.templates.addSignal} onClose={onClose}>
      <Form onSubmit={(values) => onSave(signalOf(values))}>
        <Field
          label={texts.templates.key}
          name="key"
          required
          pattern="[A-Za-z][A-Za-z0-9_\-]{0,63}"
          title={texts.templates.keyHelp}
          value={key}
          onChange={({ target }) => setKey(target.value)}
        />
        {taken.includes(key) && (
          <p className="fine" role="alert">
            {texts.templates.taken}
          </p>
        )}
        <Field label={texts.templates.label} name="label" maxLength={120} defaultValue={signal?.label} />
        <label>
          {texts.templates.kind}
          <select
            value={isBinary ? "binary" : "numeric"}
            onChange={({ target }) => setIsBinary(target.value === "binary")}
          >
            <option value="numeric">{texts.templates.numeric}</option>
            <option value="binary">{texts.templates.binary}</option>
          </select>
        </label>
        {isBinary ? <BinaryFields signal={signal} /> : <NumericFields signal={signal} />}
        <Buttons action={texts.templates.apply} disabled={taken.includes(key)} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}

function NumericFields({ signal }: { signal: Signal | null }) {
  const texts = useTexts();
  return (
    <>
      <div className="fields">
        <Field label={texts.templates.field} name="field" required maxLength={64} defaultValue={signal?.field} />
        <Field label={texts.rules.unit} name="unit" maxLength={20} defaultValue={signal?.unit} />
        {(["scale", "offset", "min", "max"] as const).map((name) => (
          <NumberField key={name} label={texts.templates.numbers[name]} name={name} defaultValue={signal?.[name]} />
        ))}
        <label>
          {texts.templates.growth}
          <select name="kind" defaultValue={signal?.kind ?? ""}>
            <option value="">{texts.templates.kinds.gauge}</option>
            <option value="counter">{texts.templates.kinds.counter}</option>
          </select>
        </label>
        <SelectField
          label={texts.templates.role}
          name="role"
          defaultValue={signal?.role ?? ""}
          values={ROLES}
          labels={texts.templates.roles}
        >
          <option value="">{texts.templates.noRole}</option>
        </SelectField>
      </div>
      <TextField
        label={texts.templates.symbols}
        name="symbols"
        rows={2}
        placeholder="0 = Off"
        defaultValue={symbolLines(signal?.symbols)}
      />
    </>
  );
}

function BinaryFields({ signal }: { signal: Signal | null }) {
  const texts = useTexts();
  return (
    <>
      <div className="fields">
        <Field
          label={texts.templates.field}
          name="word"
          maxLength={64}
          placeholder="status"
          defaultValue={signal?.word}
        />
        <Field
          label={texts.templates.bit}
          name="bit"
          type="number"
          min={0}
          max={63}
          required
          defaultValue={signal?.bit}
        />
        <SelectField
          label={texts.alerts.severity}
          name="severity"
          defaultValue={signal?.severity ?? ""}
          values={SEVERITIES}
          labels={texts.severity}
        >
          <option value="">{texts.devices.noTemplate}</option>
        </SelectField>
      </div>
      <CheckField name="invert" defaultChecked={signal?.invert}>
        {texts.templates.invert}
      </CheckField>
    </>
  );
}
