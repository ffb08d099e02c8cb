import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { apiOf, dataOf } from "./api/client";
import type { components } from "./api/schema";
import { changesOf } from "./form-data";
import type { Range } from "./plants";

export type AlertRule = components["schemas"]["AlertRule"];
export type NewAlertRule = components["schemas"]["NewAlertRule"];
export type Condition = components["schemas"]["Condition"];
export type BackTest = components["schemas"]["BackTest"];

export const CONDITIONS: readonly Condition[] = ["LT", "GT", "EQ"];
const PAGE = 50;

/** A page of an organisation's alert rules, newest first. */
export function rulesQuery(organizationId: string, page = 1) {
  return queryOptions({
    queryKey: [organizationId, "rules", page],
    queryFn: ({ signal }) =>
      dataOf(apiOf(organizationId).GET("/api/v1/alert-rules", { params: { query: { page, limit: PAGE } }, signal })),
    placeholderData: keepPreviousData,
    // The rules are shown with the time of their last alert.
    refetchInterval: 30_000,
  });
}

export function ruleQuery(organizationId: string, id: string) {
  return queryOptions({
    queryKey: [organizationId, "rule", id],
    queryFn: ({ signal }) =>
      dataOf(apiOf(organizationId).GET("/api/v1/alert-rules/{id}", { params: { path: { id } }, signal })),
  });
}

/** Apply a rule to stored values, without alerts or notifications. */
export function backTest(organizationId: string, rule: NewAlertRule, range: Range): Promise<BackTest> {
  return dataOf(apiOf(organizationId).POST("/api/v1/alert-rules/preview", { body: { rule, ...range } }));
}

/** Return the rule that a form describes. Optional fields that were left empty are null. */
export function ruleOf(form: FormData, plantId: string | null): NewAlertRule {
  const text = (name: string) => String(form.get(name)).trim();
  return {
    name: text("name"),
    plantId,
    metric: text("metric"),
    condition: text("condition") as Condition,
    threshold: Number(text("threshold")),
    unit: text("unit") || null,
    severity: text("severity") as NewAlertRule["severity"],
    forSeconds: Number(text("forSeconds")),
    clearThreshold: text("clearThreshold") === "" ? null : Number(text("clearThreshold")),
    cooldownMinutes: Number(text("cooldownMinutes")),
    autoResolve: form.has("autoResolve"),
    enabled: form.has("enabled"),
  };
}

/**
 * Return what a form changes of the rule that it has shown.
 *
 * A rule with another metric keeps the unit of the form: without one, the service takes that of the metric's values, and 5 kW would
 * become 5 W.
 */
export function ruleChanges(shown: AlertRule, rule: NewAlertRule): Partial<NewAlertRule> {
  const changes = changesOf(shown, rule);
  return changes.metric === undefined ? changes : { ...changes, unit: rule.unit ?? null };
}

/** Return those of a plant's metrics that a rule watches: with its name, or of any device with this key. */
export function watchedMetrics(metric: string, metrics: readonly string[]): string[] {
  return metrics.filter((one) => one === metric || one.slice(one.lastIndexOf(".") + 1) === metric);
}
