import type { components } from "../api/schema";
import { idOf, pageOf, timesOf } from "./values";

export type AuditSubject = components["schemas"]["SubjectType"];

export const SUBJECTS: readonly AuditSubject[] = [
  "PLANT",
  "SUB_DEVICE",
  "COMMAND",
  "ALERT",
  "ALERT_RULE",
  "PLANT_GROUP",
  "DEVICE_TEMPLATE",
  "API_KEY",
  "MEMBER",
  "INVITATION",
  "USER",
  "SESSION",
  "ORGANIZATION",
  "SANDBOX_PLANT",
];

/** What changes of a plant are about. */
export const SUBJECTS_OF_PLANT: readonly AuditSubject[] = ["PLANT", "SUB_DEVICE", "COMMAND", "ALERT", "ALERT_RULE"];

export interface AuditSearch {
  subject?: AuditSubject | undefined;
  /** Id of a user, key or plant. */
  actor?: string | undefined;
  /** When the changes were made; `to` is exclusive. */
  from?: string | undefined;
  to?: string | undefined;
  /** From 1. */
  page?: number | undefined;
}

/** Return what of a link the page understands. */
export function auditSearch({ subject, actor, page, ...times }: Record<string, unknown>): AuditSearch {
  return {
    ...timesOf(times),
    subject: SUBJECTS.find((one) => one === subject),
    actor: idOf(actor),
    page: pageOf(page),
  };
}
