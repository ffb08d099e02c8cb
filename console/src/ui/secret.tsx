import { useTexts } from "../i18n";
import { CopyField } from "./copy-field";
import { Dialog } from "./dialog";

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
    <Dialog title={secrets.title} onClose={onClose} isKept>
      <p>{secrets.explanation}</p>
      {Object.entries(secrets.values).map(([label, value]) => (
        <CopyField key={label} label={label} value={value} />
      ))}
      <button type="button" onClick={onClose}>
        {texts.close}
      </button>
    </Dialog>
  );
}
