import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, apiOf, dataOf, given, inOrganization } from "./api/client";
import type { components } from "./api/schema";
import type { AuditSearch } from "./searches/audit";
import type { ListSearch } from "./searches/list";
import type { Role } from "./session";

export type Member = components["schemas"]["Member"];
export type Invitation = components["schemas"]["ListedInvitation"];
export type Channel = components["schemas"]["Channel"];

export const ROLES: readonly Role[] = ["VIEWER", "OPERATOR", "ORG_ADMIN"];
const MOST = 100;
const PAGE = 20;

/** The key of every page of the user's deliveries. */
export const OWN_DELIVERIES = ["own-deliveries"] as const;

/** A page of the members of an organisation whose name or address contains `q`. */
export function membersQuery(organizationId: string, { q, page }: ListSearch) {
  const query = given({ q, page: page ?? 1, limit: MOST });
  return queryOptions({
    queryKey: [organizationId, "members", query],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET("/api/v1/organizations/{orgId}/members", {
          params: {
            header: inOrganization(organizationId),
            path: { orgId: organizationId },
            query,
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
}

/** All members of an organisation, by name. */
export function allMembersQuery(organizationId: string) {
  return queryOptions({
    queryKey: [organizationId, "members", "all"],
    queryFn: async ({ signal }) => {
      const members: Member[] = [];
      for (let page = 1, last = 1; page <= last; page++) {
        const params = {
          header: inOrganization(organizationId),
          path: { orgId: organizationId },
          query: { page, limit: MOST },
        };
        const { data, meta } = await dataOf(api.GET("/api/v1/organizations/{orgId}/members", { params, signal }));
        members.push(...data);
        last = meta.totalPages;
      }
      return members.sort((a, b) => a.user.name.localeCompare(b.user.name));
    },
    staleTime: 60_000,
  });
}

/** A page of the invitations of an organisation, newest first. */
export function invitationsQuery(organizationId: string, page: number) {
  return queryOptions({
    queryKey: [organizationId, "invitations", page],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET("/api/v1/invitations", {
          params: { header: inOrganization(organizationId), query: { page, limit: MOST } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
}

/** A page of what was changed of a plant, or in an organisation, newest first. */
export function auditQuery(
  organizationId: string,
  { subject: subjectType, actor: actorId, from, to, page }: AuditSearch,
  plantId: string | undefined,
) {
  const query = { page: page ?? 1, limit: 50, ...given({ subjectType, actorId, from, to, plantId }) };
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
  refetchInterval: 60_000,
});

export const preferencesQuery = queryOptions({
  queryKey: ["notification-preferences"],
  queryFn: ({ signal }) => dataOf(api.GET("/api/v1/notifications/preferences", { signal })),
});

/** A page of the notifications to the user, newest first. */
export function ownDeliveriesQuery(page: number) {
  const query = { page, limit: PAGE };
  return queryOptions({
    queryKey: [...OWN_DELIVERIES, query],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/notifications/deliveries", { params: { query }, signal })),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
}
