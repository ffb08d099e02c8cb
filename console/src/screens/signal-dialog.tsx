import { useId, useState } from "react";
import { useTexts } from "../i18n";
import { SEVERITIES } from "../severities";
import { ROLES, type Signal, signalOf, symbolLines } from "../templates";
import { Dialog } from "../ui/dialog";
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
        <label>
          {texts.templates.key}
          <input
            name="key"
            required
            pattern="[A-Za-z][A-Za-z0-9_\-]{0,63}"
            title={texts.templates.keyHelp}
            value={key}
            onChange={({ target }) => setKey(target.value)}
            autoComplete="off"
          />
        </label>
        {taken.includes(key) && (
          <p className="fine" role="alert">
            {texts.templates.taken}
          </p>
        )}
        <label>
          {texts.templates.label}
          <input name="label" maxLength={120} defaultValue={signal?.label} autoComplete="off" />
        </label>
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
  const symbolsId = useId();
  return (
    <>
      <div className="fields">
        <label>
          {texts.templates.field}
          <input name="field" required maxLength={64} defaultValue={signal?.field} autoComplete="off" />
        </label>
        <label>
          {texts.rules.unit}
          <input name="unit" maxLength={20} defaultValue={signal?.unit} autoComplete="off" />
        </label>
        {(["scale", "offset", "min", "max"] as const).map((name) => (
          <label key={name}>
            {texts.templates.numbers[name]}
            <input name={name} type="number" step="any" defaultValue={signal?.[name]} />
          </label>
        ))}
        <label>
          {texts.templates.growth}
          <select name="kind" defaultValue={signal?.kind ?? ""}>
            <option value="">{texts.templates.kinds.gauge}</option>
            <option value="counter">{texts.templates.kinds.counter}</option>
          </select>
        </label>
        <label>
          {texts.templates.role}
          <select name="role" defaultValue={signal?.role ?? ""}>
            <option value="">{texts.templates.noRole}</option>
            {ROLES.map((role) => (
              <option key={role} value={role}>
                {texts.templates.roles[role]}
              </option>
            ))}
          </select>
        </label>
      </div>
      <div className="field">
        <label htmlFor={symbolsId}>{texts.templates.symbols}</label>
        <textarea
          id={symbolsId}
          name="symbols"
          rows={2}
          placeholder="0 = Off"
          defaultValue={symbolLines(signal?.symbols)}
        />
      </div>
    </>
  );
}

function BinaryFields({ signal }: { signal: Signal | null }) {
  const texts = useTexts();
  return (
    <>
      <div className="fields">
        <label>
          {texts.templates.field}
          <input name="word" maxLength={64} placeholder="status" defaultValue={signal?.word} autoComplete="off" />
        </label>
        <label>
          {texts.templates.bit}
          <input name="bit" type="number" min={0} max={63} required defaultValue={signal?.bit} />
        </label>
        <label>
          {texts.alerts.severity}
          <select name="severity" defaultValue={signal?.severity ?? ""}>
            <option value="">{texts.devices.noTemplate}</option>
            {SEVERITIES.map((severity) => (
              <option key={severity} value={severity}>
                {texts.severity[severity]}
              </option>
            ))}
          </select>
        </label>
      </div>
      <label className="check">
        <input type="checkbox" name="invert" defaultChecked={signal?.invert} />
        {texts.templates.invert}
      </label>
    </>
  );
}
