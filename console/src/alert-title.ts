import type { Alert } from "./alerts";
import { exact } from "./format/quantities";
import type { Catalogue } from "./i18n";

/** Return what raised an alert about a metric with this name: `State of charge 9.5 %, below 10 %`. */
export function alertTitle(
  alert: Alert,
  name: string,
  comparisons: Catalogue["rules"]["comparisons"],
  locale: string,
): string {
  const { message, condition, threshold, unit } = alert;
  // Of an earlier release, which kept only the message.
  if (condition === null || threshold === null) return message;
  return `${name} ${measured(alert, locale)}, ${comparisons[condition]} ${exact(threshold, unit, locale)}`;
}

/** Return a value that is compared with a threshold: six digits, as in the message, unless these do not show the difference. */
export function measured(
  { value, threshold, unit }: Pick<Alert, "value" | "threshold" | "unit">,
  locale: string,
): string {
  const rounded = Math.abs(value) < 1e5 ? Number(value.toPrecision(6)) : Math.round(value);
  return exact(rounded === threshold ? value : rounded, unit, locale);
}
