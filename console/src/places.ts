import { queryOptions } from "@tanstack/react-query";
import { apiOf, dataOf, given } from "./api/client";
import type { components } from "./api/schema";
import type { FleetPlant } from "./fleet";
import { untilReadAgain } from "./reading";
import type { FleetSearch } from "./searches/fleet";
import { SEVERITIES } from "./severities";

export type Place = components["schemas"]["Place"];
export type Places = Pick<components["schemas"]["Places"], "features" | "withoutPlace">;

/** All plants of a fleet that have coordinates. */
export function placesQuery(organizationId: string) {
  return queryOptions({
    queryKey: [organizationId, "fleet", "places"],
    queryFn: async ({ signal }): Promise<Places> => {
      const features: Place[] = [];
      let cursor: string | undefined;
      for (;;) {
        const query = given({ cursor });
        const page = await dataOf(apiOf(organizationId).GET("/api/v1/fleet/places", { params: { query }, signal }));
        features.push(...page.features);
        if (page.nextCursor === null) return { features, withoutPlace: page.withoutPlace };
        cursor = page.nextCursor;
      }
    },
    // The stream changes states; coordinates and new plants are read again.
    refetchInterval: (query) => untilReadAgain(query, 60_000),
  });
}

/** Return whether an operator looks for a plant: it is offline or has an alert with at least a warning, and was not revoked. */
export function isTroubled({ properties: { status, lifecycleStatus, worstAlert } }: Place): boolean {
  if (lifecycleStatus === "DECOMMISSIONED") return false;
  return status === "OFFLINE" || (worstAlert !== null && worstAlert !== "INFO");
}

/** Return the places that match the filters of the list. A place has no serial number, so that a text is sought in names alone. */
export function matching(places: readonly Place[], { q, status, alert, lifecycleStatus }: FleetSearch): Place[] {
  const text = q?.toLowerCase() ?? "";
  const least = alert === undefined || alert === "ANY" || alert === "NONE" ? 0 : SEVERITIES.indexOf(alert);
  return places.filter(({ properties }) => {
    const severity = properties.worstAlert === null ? -1 : SEVERITIES.indexOf(properties.worstAlert);
    return (
      properties.name.toLowerCase().includes(text) &&
      (status === undefined || status.includes(properties.status)) &&
      (lifecycleStatus === undefined || lifecycleStatus.includes(properties.lifecycleStatus)) &&
      (alert === undefined || (alert === "NONE" ? severity < 0 : severity >= least))
    );
  });
}

/** Return the places with the new state of plants that changed. */
export function withStates(places: Places | undefined, changed: ReadonlyMap<string, FleetPlant>): Places | undefined {
  return (
    places && {
      ...places,
      features: places.features.map((place) => {
        const plant = changed.get(place.id);
        if (plant === undefined) return place;
        const { name, status, lifecycleStatus, worstAlert } = plant;
        return { ...place, properties: { name, status, lifecycleStatus, worstAlert } };
      }),
    }
  );
}
