import { useTexts } from "../i18n";

/** Shown in place of a page that the user may not use. `rights` names who may. */
export function Refused({ rights }: { rights: string }) {
  return (
    <p className="hint" role="alert">
      {useTexts().refused(rights)}
    </p>
  );
}
