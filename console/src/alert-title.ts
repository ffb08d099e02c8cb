import type { Alert } from "./alerts";
import { exact } from "./format/quantities";
import type { Catalogue } from "./i18n";

/** Return what raised an alert about a metric with this name: `State of charge 9.5 %, below 10 %`. */
export function alertTitle(
  { message, value, condition, threshold, unit }: Alert,
  name: string,
  comparisons: Catalogue["rules"]["comparisons"],
  locale: string,
): string {
  // Of an earlier release, which kept only the message.
  if (condition === null || threshold === null) return message;
  // Six digits, as in the message, unless these do not show the difference.
  const rounded = Math.abs(value) < 1e5 ? Number(value.toPrecision(6)) : Math.round(value);
  const measured = exact(rounded === threshold ? value : rounded, unit, locale);
  return `${name} ${measured}, ${comparisons[condition]} ${exact(threshold, unit, locale)}`;
}
