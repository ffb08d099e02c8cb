import type { DeviceTemplate } from "./devices";
import { partsOf } from "./metrics";
import type { Point } from "./plants";
import { watchedMetrics } from "./rules";
import { signalsOf } from "./templates";

/** A metric that a rule may watch. */
export interface MetricChoice {
  /** A key, or the metric of one device. */
  metric: string;
  label: string;
  /** "": unknown, or not the same for all that the rule would watch. */
  unit: string;
}

/** Return the keys of the signals of templates, in alphabetical order, each with the shortest of its labels. */
export function keyChoices(templates: readonly DeviceTemplate[], labelOf: (label: string) => string): MetricChoice[] {
  const found = new Map<string, MetricChoice>();
  for (const { key, label = key, unit = "" } of templates.flatMap(signalsOf)) {
    const { label: other, unit: otherUnit } = found.get(key) ?? { label, unit };
    found.set(key, {
      metric: key,
      label: label.length < other.length ? label : other,
      unit: unit === otherUnit ? unit : "",
    });
  }
  return [...found.values()]
    .map((choice) => ({ ...choice, label: labelOf(choice.label) }))
    .sort((a, b) => a.metric.localeCompare(b.metric));
}

/** Return the metrics of a plant's newest values, each with its device and with the label of its key. */
export function plantChoices(latest: readonly Point[], keys: readonly MetricChoice[]): MetricChoice[] {
  const labels = new Map(keys.map(({ metric, label }) => [metric, label]));
  return latest.map(({ metric, unit }) => {
    const [device, key] = partsOf(metric);
    return { metric, label: [device, labels.get(key) ?? key].filter(Boolean).join(" · "), unit: unit ?? "" };
  });
}

/** Return the unit of what a rule about a metric would watch; "" if it is not known or not the same for all. */
export function unitOf(metric: string, choices: readonly MetricChoice[]): string {
  const watched = choices.filter((one) => watchedMetrics(metric, [one.metric]).length > 0);
  const [unit = "", ...others] = new Set(watched.map((one) => one.unit));
  return others.length === 0 ? unit : "";
}
