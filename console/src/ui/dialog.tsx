import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useId, useLayoutEffect, useRef, useState } from "react";
import { useTexts } from "../i18n";
import { Failure } from "./failure";
import { Field } from "./fields";
import { Buttons, Form } from "./form";

interface DialogProps {
  title: string;
  /** Also called when the user presses Escape. */
  onClose: () => void;
  /** Whether Escape does not close it, because what it shows, or will show, cannot be shown again. */
  isKept?: boolean;
  children: ReactNode;
}

/** A modal dialog; it is open while it is rendered. */
export function Dialog({ title, onClose, isKept = false, children }: DialogProps) {
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  // Closed before the element is removed, because closing returns the focus to the button that opened it.
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onClose={onClose}
      // Chromium closes a dialog at the second Escape, whatever `cancel` events prevent; other browsers may lack the attribute.
      closedby={isKept ? "none" : "closerequest"}
      onCancel={(event) => {
        if (isKept) event.preventDefault();
      }}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  /** What will happen, in a sentence or two. */
  consequence: string;
  /** The name that the user must type, where what happens cannot be undone. */
  name?: string;
  /** Label of the button. */
  action: string;
  run: () => Promise<unknown>;
  onClose: () => void;
}

/** Ask before something happens, if it cannot be undone for the name of the thing. */
export function Confirm({ title, consequence, name, action, run, onClose }: ConfirmProps) {
  const texts = useTexts();
  const [typed, setTyped] = useState("");
  const mutation = useMutation({ mutationFn: run, onSuccess: onClose });
  return (
    <Dialog title={title} onClose={onClose} isKept={mutation.isPending}>
      <Form onSubmit={() => mutation.mutate()}>
        <p>{consequence}</p>
        {name !== undefined && (
          <Field
            label={texts.confirm.typeName(name)}
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
            required
          />
        )}
        <Failure error={mutation.error} />
        <Buttons
          action={action}
          isDangerous
          disabled={(name !== undefined && asShown(typed) !== asShown(name)) || mutation.isPending}
          onCancel={onClose}
        />
      </Form>
    </Dialog>
  );
}

/** Return a text as a page shows it: with one blank in place of several. */
function asShown(text: string): string {
  return text.trim().replace(/\s+/g, " ");
}
