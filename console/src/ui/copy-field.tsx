import { useId, useState } from "react";
import { useTexts } from "../i18n";

interface Props {
  /** What the value is. */
  label: string;
  value: string;
}

/** A value with a button that copies it. */
export function CopyField({ label, value }: Props) {
  const id = useId();
  return (
    <div className="copy">
      <label htmlFor={id}>{label}</label>
      {value.includes("\n") ? (
        <textarea id={id} readOnly rows={4} value={value} />
      ) : (
        <input id={id} readOnly value={value} />
      )}
      <CopyButton value={value} />
    </div>
  );
}

export function CopyButton({ value }: { value: string }) {
  const texts = useTexts();
  const [copied, setCopied] = useState(false);
  // Browsers offer the clipboard on localhost and with TLS.
  if (!navigator.clipboard) return null;
  return (
    <button type="button" onClick={() => navigator.clipboard.writeText(value).then(() => setCopied(true))}>
      {copied ? texts.copied : texts.copy}
    </button>
  );
}
