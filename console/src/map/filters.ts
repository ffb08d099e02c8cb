import { queryOptions } from "@tanstack/react-query";
import { allPlants } from "../fleet";
import type { FleetSearch } from "../searches/fleet";

/** The ids of the plants that match those filters of the list whose values places do not have; null if none is set. */
export function otherFiltersQuery(organizationId: string, { groupId, templateId, refused }: FleetSearch) {
  const filters = { groupId, templateId, refused };
  const isSet = groupId !== undefined || templateId !== undefined || refused !== undefined;
  return queryOptions({
    queryKey: [organizationId, "fleet", "ids", filters],
    queryFn: async (): Promise<ReadonlySet<string> | null> =>
      isSet ? new Set((await allPlants(organizationId, filters, () => undefined)).map(({ id }) => id)) : null,
    refetchInterval: 60_000,
  });
}
