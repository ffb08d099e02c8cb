import type { ReactNode } from "react";
import { Brand } from "./brand";

/** The frame of pages without a session. */
export function FrontDoor({ title, children }: { title: string; children: ReactNode }) {
  return (
    <main className="front-door">
      <title>{`${title} · Gridfleet`}</title>
      <Brand />
      <div className="card">
        <h1>{title}</h1>
        {children}
      </div>
    </main>
  );
}
