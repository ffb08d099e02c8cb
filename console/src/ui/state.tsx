import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { components } from "../api/schema";
import type { FleetPlant } from "../fleet";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";

export type PlantStatus = components["schemas"]["PlantStatus"];
type Severity = components["schemas"]["Severity"];
export type CommandStatus = components["schemas"]["CommandStatus"];
type DeliveryStatus = components["schemas"]["NotificationStatus"];
type DeviceStatus = components["schemas"]["SubDeviceStatus"];

const DISC = <circle cx="8" cy="8" r="6" />;
const SQUARE = <path d="M2 2h12v12H2z" />;
const TRIANGLE = <path d="M8 1 15.5 15H.5z" />;
const CROSS = <path d="m1 3.5 2.5-2.5L8 5.5 12.5 1 15 3.5 10.5 8l4.5 4.5-2.5 2.5L8 10.5 3.5 15 1 12.5 5.5 8z" />;
/** The letter i. */
const LETTER = <path d="M6 1h4v3.5H6zm-1.5 5.5H10V13h2v2H4v-2h2V9H4.5z" />;
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

const SEVERITY = {
  INFO: { look: "unknown", shape: LETTER },
  WARNING: { look: "warning", shape: TRIANGLE },
  CRITICAL: { look: "bad", shape: TRIANGLE },
  EMERGENCY: { look: "bad", shape: TRIANGLE },
} as const;

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

/** Says that messages of a plant were refused lately; `word` in place of the usual words. */
export function RefusedState({ word }: { word?: string }) {
  const texts = useTexts();
  return <State look="warning" shape={CROSS} word={word ?? texts.fleet.refused} />;
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

/** The severity of an alert; `word` in place of its usual name. */
export function AlertState({ severity, word }: { severity: Severity; word?: string | undefined }) {
  const texts = useTexts();
  return <State {...SEVERITY[severity]} word={word ?? texts.severity[severity]} />;
}

/** The open alerts of a plant and whether its messages are refused, with links to them. */
export function PlantTrouble({ slug, plant }: { slug: string; plant: FleetPlant }) {
  const texts = useTexts();
  const locale = useLocale();
  const { worstAlert, openAlerts, lastRefusedAt } = plant;
  const params = { slug, plantId: plant.id };
  return (
    <>
      {worstAlert && (
        <Link to="/o/$slug/plants/$plantId/alerts" params={params}>
          <AlertState severity={worstAlert} />{" "}
          <span className="fine">{texts.alerts.count(count(openAlerts, locale), openAlerts)}</span>
        </Link>
      )}
      {lastRefusedAt && (
        <Link to="/o/$slug/plants/$plantId/messages" params={params}>
          <RefusedState />
        </Link>
      )}
    </>
  );
}
