import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { apiOf, dataOf } from "./api/client";
import type { components } from "./api/schema";
import { fieldText } from "./form-data";
import { knownZone } from "./searches/values";
import type { SessionOrganization } from "./session";

export type Plant = components["schemas"]["PlantDetailed"];
export type PlantChanges = components["schemas"]["PlantPatch"];
export type Point = components["schemas"]["TelemetryPoint"];
export type EnergyOverTime = components["schemas"]["EnergyOverTime"];
export type Columns = components["schemas"]["TelemetryColumns"];

export function plantQuery(organizationId: string, id: string, key = "plant") {
  return queryOptions({
    queryKey: [organizationId, key, id],
    queryFn: ({ signal }) =>
      dataOf(apiOf(organizationId).GET("/api/v1/plants/{id}", { params: { path: { id } }, signal })),
  });
}

/** Return the time zone in which a plant's times are shown; that of the organisation for lists of all plants. */
export function useTimeZone(organization: SessionOrganization, plantId: string | undefined): string {
  return knownZone(useStoredZone(organization, plantId));
}

/** Return the time zone that is stored for a plant, which the browser may not know. */
export function useStoredZone({ id, timeZone }: SessionOrganization, plantId: string | undefined): string {
  const plant = useQuery({ ...plantQuery(id, plantId ?? ""), enabled: plantId !== undefined });
  return plant.data?.effectiveTimeZone ?? timeZone;
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

/** A page of the refused messages of a plant, newest first. */
export function refusedQuery(organizationId: string, id: string, page = 1) {
  return queryOptions({
    queryKey: [organizationId, "refused", id, page],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/plants/{id}/refused-messages", {
          params: { path: { id }, query: { page, limit: 100 } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
}

/** Devices in the plant's messages that no sub-device matches. */
export function unregisteredQuery(organizationId: string, id: string) {
  return queryOptions({
    queryKey: [organizationId, "unregistered", id],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/plants/{id}/unregistered-devices", { params: { path: { id } }, signal }),
      ),
  });
}

/** The newest devices in the messages of all plants that no sub-device matches. */
export function unregisteredOfFleetQuery(organizationId: string) {
  return queryOptions({
    queryKey: [organizationId, "unregistered"],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/fleet/unregistered-devices", { params: { query: { limit: 5 } }, signal }),
      ),
    refetchInterval: 60_000,
  });
}

/** The energy of a plant from `start` to `end`, epoch milliseconds, in buckets of the zone. */
export function energyQuery(
  organizationId: string,
  plantId: string,
  { start, end }: { start: number; end: number },
  bucket: components["schemas"]["EnergyBucket"],
  timeZone: string,
) {
  const query = { from: new Date(start).toISOString(), to: new Date(end).toISOString(), bucket, timeZone };
  return queryOptions({
    queryKey: [organizationId, "energy", plantId, query],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/plants/{plantId}/energy", { params: { path: { plantId }, query }, signal }),
      ),
  });
}

export interface Range {
  /** Start, inclusive, in ISO 8601. */
  from: string;
  /** End, exclusive, in ISO 8601. */
  to: string;
}

/**
 * Averages, minima and maxima of metrics in buckets of a width, or of one that the service chooses: at most `points`. With the range,
 * which is the former one while another one is loaded.
 */
export function columnsQuery(
  organizationId: string,
  plantId: string,
  metrics: string[],
  range: Range,
  width: { points: number } | { bucket: components["schemas"]["ColumnBucket"] },
) {
  return queryOptions({
    queryKey: [organizationId, "columns", plantId, metrics, range, width],
    queryFn: async ({ signal }) => ({
      ...(await dataOf(
        apiOf(organizationId).GET("/api/v1/telemetry/columns", {
          params: { query: { plantId, metrics, ...range, ...width } },
          signal,
        }),
      )),
      range,
    }),
    enabled: metrics.length > 0,
  });
}

/** Units of a chart: each has an axis at one side. */
export const MOST_UNITS = 2;

/** Return the columns that a chart can show: those of the first two units. */
export function drawnColumns(columns: Columns): Columns {
  const units = [...new Set(columns.columns.map(({ unit }) => unit ?? ""))].slice(0, MOST_UNITS);
  return { ...columns, columns: columns.columns.filter(({ unit }) => units.includes(unit ?? "")) };
}

/**
 * Return the fields of a form that differ from the plant, empty ones as null. Others are not sent, so that a place that the ESM
 * reports does not become the plant's own.
 */
export function plantChanges(plant: Plant, form: FormData): PlantChanges {
  const text = (name: string) => fieldText(form, name);
  const number = (name: string) => (text(name) === "" ? null : Number(text(name)));
  const { name, serialNumber, timeZone, tag, templateId, externalPlantId } = plant;
  const changes: PlantChanges = {};
  if (text("name") !== name) changes.name = text("name");
  if (text("serialNumber") !== serialNumber) changes.serialNumber = text("serialNumber");
  if (text("timeZone") !== (timeZone ?? "")) changes.timeZone = text("timeZone") || null;
  if (text("tag") !== (tag ?? "")) changes.tag = text("tag") || null;
  if (text("templateId") !== (templateId ?? "")) changes.templateId = text("templateId") || null;
  if (text("externalPlantId") !== (externalPlantId ?? "")) changes.externalPlantId = text("externalPlantId") || null;
  const [latitude, longitude] = [number("latitude"), number("longitude")];
  // The service takes both or none.
  if (latitude !== plant.latitude || longitude !== plant.longitude) Object.assign(changes, { latitude, longitude });
  return changes;
}
