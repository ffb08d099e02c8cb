import { useLocation } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";
import { useTexts } from "../i18n";
import { Brand } from "./brand";
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

/** A page with the main menu beside it. On a narrow screen, a button opens the menu. */
export function Frame({ head, menu, account, children }: Props) {
  const texts = useTexts();
  const links = useRef<HTMLElement>(null);
  const location = useLocation();
  // The page that was chosen is below the menu. Browsers before 2024 have no popovers, and nothing to close.
  useEffect(() => links.current?.hidePopover?.(), [location]);
  return (
    <div className="shell">
      <a className="skip" href="#content">
        {texts.menu.skip}
      </a>
      <header className="sidebar">
        <button type="button" className="opener" popoverTarget="menu">
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M1 3h14M1 8h14M1 13h14" />
          </svg>
          <span className="hidden">{texts.menu.open}</span>
        </button>
        <Brand />
        {head}
        <nav id="menu" ref={links} popover="auto" aria-label={texts.menu.label}>
          {menu}
        </nav>
        {account}
      </header>
      <main id="content" tabIndex={-1}>
        <Reading />
        {children}
      </main>
    </div>
  );
}
