import type { components } from "../api/schema";
import { useTexts } from "../i18n";

type PlantStatus = components["schemas"]["PlantStatus"];
type Severity = components["schemas"]["Severity"];

const STATUS = {
  ONLINE: { look: "good", shape: <circle cx="8" cy="8" r="6" /> },
  OFFLINE: { look: "bad", shape: <path d="M2 2h12v12H2z" /> },
  UNKNOWN: { look: "unknown", shape: <path d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1m0 2a5 5 0 1 1 0 10A5 5 0 0 1 8 3" /> },
} as const;

const SEVERITY = { INFO: "unknown", WARNING: "warning", CRITICAL: "bad", EMERGENCY: "bad" } as const;

export function PlantState({ status }: { status: PlantStatus }) {
  const { look, shape } = STATUS[status];
  return (
    <span className={`state ${look}`}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        {shape}
      </svg>
      {useTexts().status[status]}
    </span>
  );
}

/** The severity of an alert and, if there are several, how many. */
export function AlertState({ severity, count = 1 }: { severity: Severity; count?: number }) {
  return (
    <span className={`state ${SEVERITY[severity]}`}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d="M8 1 15.5 15H.5z" />
      </svg>
      {useTexts().severity[severity]}
      {count > 1 && <span className="fine">{count}</span>}
    </span>
  );
}
