import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { notFound } from "@tanstack/react-router";
import { api, dataOf } from "./api/client";
import { knownZone } from "./searches/values";
import type { SessionOrganization, SessionUser } from "./session";

const MOST = 100;

/** All organisations: for SuperAdmins, who act in each of them. */
export const allOrganizations = queryOptions({
  queryKey: ["organizations"],
  queryFn: async ({ signal }) => {
    const found: SessionOrganization[] = [];
    for (let page = 1; ; page++) {
      const { data, meta } = await dataOf(
        api.GET("/api/v1/organizations", { params: { query: { page, limit: MOST } }, signal }),
      );
      found.push(
        ...data.map(({ id, name, slug, timeZone }) => ({ id, name, slug, timeZone, role: "ORG_ADMIN" as const })),
      );
      if (page >= meta.totalPages) return found;
    }
  },
  staleTime: 60_000,
});

/** Return the organisation whose pages a user sees first; undefined for a user who can see none. */
export async function firstOrganization(
  queryClient: QueryClient,
  user: SessionUser,
): Promise<SessionOrganization | undefined> {
  const isDefault = ({ id }: SessionOrganization) => id === user.defaultOrganizationId;
  const own = user.organizations.find(isDefault) ?? user.organizations[0];
  if (own || !user.isSuperAdmin) return own;
  const all = await queryClient.fetchQuery(allOrganizations);
  return all.find(isDefault) ?? all[0];
}

/**
 * Return the organisation with this slug, with a time zone that the browser knows.
 *
 * @throws NotFound The user is no member of it, or it does not exist: the console shows both alike, as the service does.
 */
export async function findOrganization(
  queryClient: QueryClient,
  user: SessionUser,
  slug: string,
): Promise<SessionOrganization> {
  const isWanted = (one: SessionOrganization) => one.slug === slug;
  let found = user.organizations.find(isWanted);
  if (!found && user.isSuperAdmin) {
    found = (await queryClient.ensureQueryData(allOrganizations)).find(isWanted);
    // An organisation that was just created may be missing in the list.
    found ??= (await queryClient.fetchQuery(allOrganizations)).find(isWanted);
  }
  if (!found) throw notFound();
  return { ...found, timeZone: knownZone(found.timeZone) };
}
