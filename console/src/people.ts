import { queryOptions } from "@tanstack/react-query";
import { api, apiOf, dataOf, given, inOrganization } from "./api/client";
import type { components } from "./api/schema";
import type { Role } from "./session";

export type Member = components["schemas"]["Member"];
export type AuditSubject = components["schemas"]["SubjectType"];
export type Severity = components["schemas"]["Severity"];
export type Channel = components["schemas"]["Channel"];

export const ROLES: readonly Role[] = ["VIEWER", "OPERATOR", "ORG_ADMIN"];
export const SEVERITIES: readonly Severity[] = ["INFO", "WARNING", "CRITICAL", "EMERGENCY"];
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

const MOST = 100;

/** Return what of a link to the people of an organisation the page understands. */
export function peopleSearch({ q }: Record<string, unknown>): { q?: string | undefined } {
  return typeof q === "string" && q !== "" && q.length <= 100 ? { q } : {};
}

/** The members of an organisation whose name or address contains `q`, the first hundred. */
export function membersQuery(organizationId: string, q: string) {
  return queryOptions({
    queryKey: [organizationId, "members", q],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET("/api/v1/organizations/{orgId}/members", {
          params: {
            header: inOrganization(organizationId),
            path: { orgId: organizationId },
            query: { limit: MOST, ...(q !== "" && { q }) },
          },
          signal,
        }),
      ),
  });
}

export function invitationsQuery(organizationId: string) {
  return queryOptions({
    queryKey: [organizationId, "invitations"],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET("/api/v1/invitations", {
          params: { header: inOrganization(organizationId), query: { limit: MOST } },
          signal,
        }),
      ),
  });
}

/** A page of what was changed of a plant, or in an organisation, newest first. */
export function auditQuery(
  organizationId: string,
  subjectType: AuditSubject | undefined,
  page: number,
  plantId: string | undefined,
) {
  const query = { page, limit: 50, ...given({ subjectType, plantId }) };
  return queryOptions({
    queryKey: [organizationId, "audit", query],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/audit-events", {
          params: { header: inOrganization(organizationId), query },
          signal,
        }),
      ),
  });
}

export const sessionsQuery = queryOptions({
  queryKey: ["sessions"],
  queryFn: ({ signal }) => dataOf(api.GET("/api/v1/auth/sessions", { signal })),
});

export const preferencesQuery = queryOptions({
  queryKey: ["notification-preferences"],
  queryFn: ({ signal }) => dataOf(api.GET("/api/v1/notifications/preferences", { signal })),
});
