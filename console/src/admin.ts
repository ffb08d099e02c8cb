import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, apiOf, dataOf, given, reach } from "./api/client";
import { errorOf } from "./api/error";
import type { components, paths } from "./api/schema";
import type { AdminSearch } from "./searches/admin";

export type Organization = components["schemas"]["ListedOrganization"];
export type User = components["schemas"]["ListedUser"];
export type SandboxPlant = components["schemas"]["SandboxPlant"];
export type Readiness = components["schemas"]["ReadinessStatus"];

const PAGE = 50;
const READINESS = "/api/v1/health/ready" satisfies keyof paths;

/** A page of all organisations, or those whose name or slug contains `q`. */
export function organizationsQuery({ q, page }: AdminSearch) {
  const query = given({ q, page: page ?? 1, limit: PAGE });
  return queryOptions({
    queryKey: ["organizations", query],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/organizations", { params: { query }, signal })),
    placeholderData: keepPreviousData,
  });
}

/** A page of all accounts, or those whose name or address contains `q`. */
export function usersQuery({ q, page, only }: AdminSearch) {
  const query = given({
    q,
    page: page ?? 1,
    limit: PAGE,
    ...(only === "superAdmins" && { role: "ADMIN" as const }),
    ...(only === "disabled" && { disabled: true }),
  });
  return queryOptions({
    queryKey: ["users", query],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/users", { params: { query }, signal })),
    placeholderData: keepPreviousData,
  });
}

/** The versions of the keyring, and how many secrets are encrypted with each. */
export const keyVersionsQuery = queryOptions({
  queryKey: ["key-versions"],
  queryFn: ({ signal }) => dataOf(api.GET("/api/v1/internal/crypto/key-versions", { signal })),
});

/** An account with its organisations. */
export function userQuery(id: string) {
  return queryOptions({
    queryKey: ["users", id],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/users/{id}", { params: { path: { id } }, signal })),
  });
}

/**
 * Whether the process that answers can work, and each of its checks. null: this service reveals them on its own machine only.
 */
export const readinessQuery = queryOptions({
  queryKey: ["readiness"],
  queryFn: async ({ signal }): Promise<Readiness | null> => {
    const response = await reach(new Request(READINESS, { signal }));
    if (response.status === 403) return null;
    // The checks are in the response also if one has failed.
    if (response.ok || response.status === 503) return (await response.json()) as Readiness;
    throw await errorOf(response);
  },
  refetchInterval: 10_000,
  retry: false,
});

/** Hits and size of the cache of responses. */
export const cacheQuery = queryOptions({
  queryKey: ["cache"],
  queryFn: ({ signal }) => dataOf(api.GET("/api/v1/admin/cache/stats", { signal })),
  refetchInterval: 10_000,
});

/** A page of the notifications to all users, newest first. */
export function deliveriesQuery(page = 1) {
  const query = { page, limit: PAGE };
  return queryOptions({
    queryKey: ["deliveries", query],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/notifications/logs", { params: { query }, signal })),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
}

/** The plants of the sandbox ESM, newest first. */
export const sandboxPlantsQuery = queryOptions({
  queryKey: ["sandbox-plants"],
  queryFn: ({ signal }) => dataOf(api.GET("/api/v1/svc-esm/admin/plants", { signal })),
});

/** Whether an organisation has access to the sandbox ESM. */
export function sandboxQuery(organizationId: string) {
  return queryOptions({
    queryKey: [organizationId, "sandbox"],
    queryFn: async ({ signal }) =>
      (await dataOf(apiOf(organizationId).GET("/api/v1/auth/me", { signal }))).user.featureFlags.svcEsmEnabled,
  });
}
