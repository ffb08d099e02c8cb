import type { ReactNode } from "react";
import { useTexts } from "../i18n";
import { Mark } from "./mark";

/** The frame of pages without a session. */
export function FrontDoor({ title, children }: { title: string; children: ReactNode }) {
  return (
    <main className="front-door">
      <title>{`${title} · Gridfleet`}</title>
      <p className="brand">
        <Mark /> {useTexts().appName}
      </p>
      <div className="card">
        <h1>{title}</h1>
        {children}
      </div>
    </main>
  );
}
