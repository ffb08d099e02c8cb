import { useId, useState } from "react";
import { useTexts } from "../i18n";
import { Dialog } from "./dialog";

interface Props {
  /** What the value is. */
  label: string;
  value: string;
}

/** A value that is shown once, with a button that copies it. */
function Secret({ label, value }: Props) {
  const texts = useTexts();
  const id = useId();
  const [copied, setCopied] = useState(false);
  return (
    <div className="secret">
      <label htmlFor={id}>{label}</label>
      {value.includes("\n") ? (
        <textarea id={id} readOnly rows={4} value={value} />
      ) : (
        <input id={id} readOnly value={value} />
      )}
      {/* Browsers offer the clipboard on localhost and with TLS. */}
      {navigator.clipboard && (
        <button type="button" onClick={() => navigator.clipboard.writeText(value).then(() => setCopied(true))}>
          {copied ? texts.copied : texts.copy}
        </button>
      )}
    </div>
  );
}

/** Values that the service returns once, by what they are. */
export interface Secrets {
  title: string;
  explanation: string;
  values: Record<string, string>;
}

/** Show values that are not shown again. */
export function SecretsDialog({ secrets, onClose }: { secrets: Secrets; onClose: () => void }) {
  const texts = useTexts();
  return (
    <Dialog title={secrets.title} onClose={onClose}>
      <p>{secrets.explanation}</p>
      {Object.entries(secrets.values).map(([label, value]) => (
        <Secret key={label} label={label} value={value} />
      ))}
      <button type="button" onClick={onClose}>
        {texts.close}
      </button>
    </Dialog>
  );
}
