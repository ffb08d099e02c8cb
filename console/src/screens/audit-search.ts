import { pageOf } from "../page";
import { type AuditSubject, SUBJECTS } from "../people";

export interface AuditSearch {
  subject?: AuditSubject | undefined;
  /** From 1. */
  page?: number | undefined;
}

/** Return what of a link the page understands. */
export function auditSearch({ subject, page }: Record<string, unknown>): AuditSearch {
  return {
    ...(SUBJECTS.includes(subject as AuditSubject) && { subject: subject as AuditSubject }),
    page: pageOf(page),
  };
}
