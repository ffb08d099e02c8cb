import { number, prefixOf } from "./quantities";

/** Return kilowatt-hours with the prefix that fits the largest of them, for an axis: `0 kWh`, `0.5 kWh`. */
export function energies(kilowattHours: readonly number[], locale: string): string[] {
  const { factor, prefix } = prefixOf(1000 * Math.max(...kilowattHours));
  return kilowattHours.map((one) => `${number((1000 * one) / factor, locale)}\u00a0${prefix}Wh`);
}
