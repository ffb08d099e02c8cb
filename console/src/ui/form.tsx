import type { ReactNode } from "react";
import { useTexts } from "../i18n";

interface FormProps {
  className?: string;
  /** Called with the values of the fields, in place of the browser's own request. */
  onSubmit: (values: FormData, form: HTMLFormElement) => void;
  children: ReactNode;
}

/** A form whose fields keep their own values. */
export function Form({ className = "form", onSubmit, children }: FormProps) {
  return (
    <form
      className={className}
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit(new FormData(event.currentTarget), event.currentTarget);
      }}
    >
      {children}
    </form>
  );
}

interface ButtonsProps {
  /** Label of the button that submits the form. */
  action: string;
  isDangerous?: boolean;
  disabled: boolean;
  /** Without it, there is no button to cancel. */
  onCancel?: () => void;
}

/** The buttons of a form. */
export function Buttons({ action, isDangerous = false, disabled, onCancel }: ButtonsProps) {
  const texts = useTexts();
  return (
    <div className="toolbar">
      <button type="submit" className={isDangerous ? "danger" : "primary"} disabled={disabled}>
        {action}
      </button>
      {onCancel !== undefined && (
        <button type="button" onClick={onCancel}>
          {texts.cancel}
        </button>
      )}
    </div>
  );
}
