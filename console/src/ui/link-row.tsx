import { useLocation } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";

interface Props {
  label: string;
  className?: string;
  children: ReactNode;
}

/** Links to pages. Where the row is wider than the screen, the link of the present page is scrolled into view. */
export function LinkRow({ label, className, children }: Props) {
  const row = useRef<HTMLElement>(null);
  const shown = useRef<Element>(null);
  // Renders the row again when another page opens.
  useLocation();
  useEffect(() => {
    const current = row.current?.querySelector<HTMLElement>('[aria-current="page"]') ?? null;
    // Only when it changes: otherwise the row could not be scrolled by hand.
    if (row.current === null || current === null || current === shown.current) return;
    shown.current = current;
    row.current.scrollTo({ left: current.offsetLeft - (row.current.clientWidth - current.offsetWidth) / 2 });
  });
  return (
    <nav ref={row} className={className} aria-label={label}>
      {children}
    </nav>
  );
}
