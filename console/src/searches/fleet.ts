import type { components } from "../api/schema";
import { SEVERITIES } from "../severities";
import { idOf, textOf, valuesOf } from "./values";

export type Sort = components["schemas"]["FleetSort"];
export type Status = components["schemas"]["PlantStatus"];
export type Lifecycle = components["schemas"]["Lifecycle"];
export type AlertCondition = components["schemas"]["AlertCondition"];

export const STATUSES: readonly Status[] = ["ONLINE", "OFFLINE", "UNKNOWN"];
export const LIFECYCLES: readonly Lifecycle[] = ["PENDING", "ACTIVE", "SUSPENDED", "DECOMMISSIONED"];
export const CONDITIONS: readonly AlertCondition[] = ["ANY", ...SEVERITIES, "NONE"];
const SORTS: readonly Sort[] = [
  "name",
  "serialNumber",
  "status",
  "lastSeenAt",
  "createdAt",
  "pv",
  "battery",
  "grid",
  "load",
  "soc",
  "energyToday",
  "alert",
];

/** What the URL says about the list: filters and order, and whether it is shown as a map. */
export interface FleetSearch {
  q?: string | undefined;
  status?: Status[] | undefined;
  alert?: AlertCondition | undefined;
  lifecycleStatus?: Lifecycle[] | undefined;
  groupId?: string | undefined;
  /** The template of the plant or of one of its devices. */
  templateId?: string | undefined;
  /** Only plants of which a message was refused in the last 24 hours. */
  refused?: true | undefined;
  sort?: Sort | undefined;
  order?: "asc" | "desc" | undefined;
  view?: "map" | undefined;
  /** The part of the world that the map shows, as `textOfView` writes it; otherwise all plants. */
  at?: string | undefined;
}

/** Return what is usable of a URL's parameters; a link may be cut or edited by hand. */
export function fleetSearch({
  q,
  status,
  alert,
  lifecycleStatus,
  groupId,
  templateId,
  refused,
  sort,
  order,
  view,
  at,
}: Record<string, unknown>): FleetSearch {
  return {
    q: textOf(q),
    status: valuesOf(STATUSES, status),
    alert: CONDITIONS.find((one) => one === alert),
    lifecycleStatus: valuesOf(LIFECYCLES, lifecycleStatus),
    groupId: idOf(groupId),
    templateId: idOf(templateId),
    refused: refused === true || undefined,
    sort: SORTS.find((one) => one === sort),
    order: order === "desc" ? "desc" : undefined,
    view: view === "map" ? "map" : undefined,
    at: typeof at === "string" ? at.slice(0, 100) : undefined,
  };
}
