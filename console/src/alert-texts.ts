import { useQuery } from "@tanstack/react-query";
import { alertTitle } from "./alert-title";
import type { Alert } from "./alerts";
import type { DeviceTemplate } from "./devices";
import { useLocale, useTexts } from "./i18n";
import { partsOf } from "./metrics";
import type { SignalRole } from "./signals";
import { signalsOf, templatesOfAllLevelsQuery } from "./templates";

/**
 * Return the name of a metric in a list of many plants, whose own templates are not read: what all signals with its key are
 * called, by their role or else by their label. The key stays where they differ.
 *
 * @param isOfPlant Whether a key without a device is that of the plant itself; otherwise, as in a rule, that of its devices too.
 */
export function sharedName(
  metric: string,
  templates: readonly DeviceTemplate[],
  texts: { roles: Readonly<Record<SignalRole, string>>; labelOf: (label: string) => string },
  isOfPlant: boolean,
): string {
  const [device, key] = partsOf(metric);
  const level = device !== "" ? "SUB_DEVICE" : isOfPlant ? "PLANT" : undefined;
  const signals = templates
    .filter((one) => level === undefined || one.level === level)
    .flatMap((one) => signalsOf(one).filter((signal) => signal.key === key));
  const role = only(signals.map((signal) => signal.role));
  const label = only(signals.map((signal) => signal.label));
  const name = role === undefined ? label && texts.labelOf(label) : texts.roles[role];
  return `${device && `${device}: `}${name ?? key}`;
}

/** Return the value that all have; undefined if they differ. */
function only<T>(values: readonly T[]): T | undefined {
  return new Set(values).size === 1 ? values[0] : undefined;
}

/** Return a function that names metrics; it returns keys until the templates are loaded. */
export function useSharedNames(): (metric: string, isOfPlant: boolean) => string {
  const { templates } = useTexts();
  const { data = [] } = useQuery(templatesOfAllLevelsQuery);
  return (metric, isOfPlant) => sharedName(metric, data, templates, isOfPlant);
}

/** Return a function that says what raised an alert, by the shared name of its metric. */
export function useAlertTitles(): (alert: Alert) => string {
  const nameOf = useSharedNames();
  const { comparisons } = useTexts().rules;
  const locale = useLocale();
  return (alert) => alertTitle(alert, nameOf(alert.metric, true), comparisons, locale);
}
