import { queryOptions } from "@tanstack/react-query";
import { api, dataOf } from "./api/client";
import type { components } from "./api/schema";

export type SessionUser = components["schemas"]["SessionUser"];
export type SessionOrganization = components["schemas"]["SessionOrganization"];
export type Role = SessionOrganization["role"];

const RANK: Record<Role, number> = { VIEWER: 0, OPERATOR: 1, ORG_ADMIN: 2 };

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async ({ signal }) => (await dataOf(api.GET("/api/v1/auth/me", { signal }))).user,
  staleTime: 60_000,
});

/** Return whether a user has at least this role in the organisation. The service decides; this only hides what it would refuse. */
export function mayAct(user: SessionUser, organization: SessionOrganization, role: Role): boolean {
  return user.isSuperAdmin || RANK[organization.role] >= RANK[role];
}
