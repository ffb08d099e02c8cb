import type { ReactNode } from "react";
import { useTexts } from "../i18n";

interface Props {
  title: string;
  organization: { name: string };
  /** Link to the screen that this one belongs to. */
  children: ReactNode;
}

/** The heading of a screen below another one, with the way back. */
export function SubPageHead({ title, organization, children }: Props) {
  return (
    <header className="plant-head">
      <title>{`${title} · ${organization.name}`}</title>
      <nav aria-label={useTexts().plant.path}>{children}</nav>
      <h1>{title}</h1>
    </header>
  );
}
