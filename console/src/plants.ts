import { queryOptions } from "@tanstack/react-query";
import { apiOf, dataOf } from "./api/client";
import type { components } from "./api/schema";

export type Plant = components["schemas"]["PlantDetailed"];
export type Point = components["schemas"]["TelemetryPoint"];
export type Columns = components["schemas"]["TelemetryColumns"];

export function plantQuery(organizationId: string, id: string) {
  return queryOptions({
    queryKey: [organizationId, "plant", id],
    queryFn: ({ signal }) =>
      dataOf(apiOf(organizationId).GET("/api/v1/plants/{id}", { params: { path: { id } }, signal })),
  });
}

/** The newest value of every metric of a plant. */
export function latestQuery(organizationId: string, plantId: string) {
  return queryOptions({
    queryKey: [organizationId, "latest", plantId],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/telemetry/{plantId}/latest", { params: { path: { plantId } }, signal }),
      ),
  });
}

export interface Range {
  /** Start, inclusive, in ISO 8601. */
  from: string;
  /** End, exclusive, in ISO 8601. */
  to: string;
}

/** Averages, minima and maxima of metrics in buckets that the service chooses, at most `points`. */
export function columnsQuery(organizationId: string, plantId: string, metrics: string[], range: Range, points: number) {
  return queryOptions({
    queryKey: [organizationId, "columns", plantId, metrics, range, points],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/telemetry/columns", {
          params: { query: { plantId, metrics, ...range, points } },
          signal,
        }),
      ),
    enabled: metrics.length > 0,
  });
}
