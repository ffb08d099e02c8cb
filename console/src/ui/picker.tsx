import { type ReactNode, useEffect, useRef, useState } from "react";

interface Props {
  className?: string;
  /** What its button says. */
  label: ReactNode;
  /** Rendered while the picker is open. */
  children: ReactNode;
}

/** A button that opens a panel. Escape closes it, and so does a press elsewhere. */
export function Picker({ className = "picker", label, children }: Props) {
  const details = useRef<HTMLDetailsElement>(null);
  const [isOpen, setIsOpen] = useState(false);
  useEffect(() => {
    if (!isOpen) return;
    const close = ({ target }: Event) => {
      if (details.current && !details.current.contains(target as Node)) details.current.open = false;
    };
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, [isOpen]);
  return (
    <details
      className={className}
      ref={details}
      onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}
      onKeyDown={({ key, currentTarget }) => {
        if (key !== "Escape") return;
        currentTarget.open = false;
        currentTarget.querySelector("summary")?.focus();
      }}
    >
      <summary className={className === "account" ? undefined : "button"}>{label}</summary>
      {isOpen && children}
    </details>
  );
}
