import type { components } from "./api/schema";

export type Severity = components["schemas"]["Severity"];

/** The severities of alerts, the least first. */
export const SEVERITIES: readonly Severity[] = ["INFO", "WARNING", "CRITICAL", "EMERGENCY"];
