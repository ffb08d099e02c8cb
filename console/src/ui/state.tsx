import type { ReactNode } from "react";
import type { components } from "../api/schema";
import { useTexts } from "../i18n";

export type PlantStatus = components["schemas"]["PlantStatus"];
type Severity = components["schemas"]["Severity"];
export type CommandStatus = components["schemas"]["CommandStatus"];
type DeliveryStatus = components["schemas"]["NotificationStatus"];
type DeviceStatus = components["schemas"]["SubDeviceStatus"];

const DISC = <circle cx="8" cy="8" r="6" />;
const SQUARE = <path d="M2 2h12v12H2z" />;
const TRIANGLE = <path d="M8 1 15.5 15H.5z" />;
const RING = <path d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1m0 2a5 5 0 1 1 0 10A5 5 0 0 1 8 3" />;

const STATUS = {
  ONLINE: { look: "good", shape: DISC },
  OFFLINE: { look: "bad", shape: SQUARE },
  DEGRADED: { look: "warning", shape: TRIANGLE },
  UNKNOWN: { look: "unknown", shape: RING },
} as const;

const COMMAND = {
  PENDING: { look: "unknown", shape: RING },
  SENT: { look: "unknown", shape: RING },
  RECEIVED: { look: "unknown", shape: DISC },
  APPLIED: { look: "good", shape: DISC },
  REJECTED: { look: "bad", shape: SQUARE },
  FAILED: { look: "bad", shape: SQUARE },
  EXPIRED: { look: "bad", shape: TRIANGLE },
} as const;

const DELIVERY = {
  PENDING: { look: "unknown", shape: RING },
  SENT: { look: "good", shape: DISC },
  FAILED: { look: "bad", shape: SQUARE },
} as const;

const SEVERITY = { INFO: "unknown", WARNING: "warning", CRITICAL: "bad", EMERGENCY: "bad" } as const;

export function PlantState({ status }: { status: PlantStatus }) {
  return <State {...STATUS[status]} word={useTexts().status[status]} />;
}

export function DeviceState({ status }: { status: DeviceStatus }) {
  return <State {...STATUS[status]} word={useTexts().devices.statuses[status]} />;
}

/** The state of a command; `word` in place of its usual name. */
export function CommandState({ status, word }: { status: CommandStatus; word?: string | undefined }) {
  const texts = useTexts();
  return <State {...COMMAND[status]} word={word ?? texts.command[status]} />;
}

export function DeliveryState({ status }: { status: DeliveryStatus }) {
  return <State {...DELIVERY[status]} word={useTexts().admin.deliveries[status]} />;
}

/** The result of a check of the service itself. */
export function CheckState({ isGood, word }: { isGood: boolean; word: string }) {
  return <State {...(isGood ? STATUS.ONLINE : STATUS.OFFLINE)} word={word} />;
}

/** Says that messages of a plant were refused lately. */
export function RefusedState() {
  return <State look="warning" shape={SQUARE} word={useTexts().fleet.refused} />;
}

function State({ look, shape, word }: { look: string; shape: ReactNode; word: string }) {
  return (
    <span className={`state ${look}`}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        {shape}
      </svg>
      {word}
    </span>
  );
}

/** The severity of an alert and, if there are several, how many. */
export function AlertState({ severity, count = 1 }: { severity: Severity; count?: number }) {
  return (
    <span className={`state ${SEVERITY[severity]}`}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        {TRIANGLE}
      </svg>
      {useTexts().severity[severity]}
      {count > 1 && <span className="fine">{count}</span>}
    </span>
  );
}
