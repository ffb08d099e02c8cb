import type { ReactNode } from "react";
import { useTexts } from "../i18n";
import { Brand } from "./brand";
import { LinkRow } from "./link-row";
import { Reading } from "./reading";

interface Props {
  /** What is above the menu. */
  head?: ReactNode;
  /** The links of the menu. */
  menu: ReactNode;
  /** What is below the menu. */
  account: ReactNode;
  /** The page. */
  children: ReactNode;
}

/** A page with the main menu beside it. */
export function Frame({ head, menu, account, children }: Props) {
  const texts = useTexts();
  return (
    <div className="shell">
      <a className="skip" href="#content">
        {texts.menu.skip}
      </a>
      <header className="sidebar">
        <Brand />
        {head}
        <LinkRow label={texts.menu.label}>{menu}</LinkRow>
        {account}
      </header>
      <main id="content" tabIndex={-1}>
        <Reading />
        {children}
      </main>
    </div>
  );
}
