/** Numbers with their units, for people. A missing value is a dash, never a zero. */

const MISSING = "–";
const PREFIXES = [
  { factor: 1e9, prefix: "G" },
  { factor: 1e6, prefix: "M" },
  { factor: 1e3, prefix: "k" },
  { factor: 1, prefix: "" },
] as const;

/** Return kilowatts with three significant digits and a fitting prefix: `12.3 kW`. */
export function power(kilowatts: number | null | undefined, locale: string): string {
  return scaled(kilowatts, "W", locale);
}

/** Return a power without its sign, which a word beside it states. */
export function unsignedPower(kilowatts: number | null | undefined, locale: string): string {
  return power(kilowatts && Math.abs(kilowatts), locale);
}

/** Return kilowatt-hours with three significant digits and a fitting prefix: `1.24 MWh`. */
export function energy(kilowattHours: number | null | undefined, locale: string): string {
  return scaled(kilowattHours, "Wh", locale);
}

/** Return a share from 0 to 100 without decimals: `64 %`. */
export function percent(value: number | null | undefined, locale: string): string {
  if (value === null || value === undefined) return MISSING;
  return `${new Intl.NumberFormat(locale, { maximumFractionDigits: 0 }).format(value)}\u00a0%`;
}

/**
 * Return a measured number: `9.87`, `51.33`, `12,345`.
 *
 * @param most Most significant digits; as many as are before the point are always shown.
 */
export function number(
  value: number | null | undefined,
  locale: string,
  most = Math.abs(value ?? 0) < 10 ? 3 : 4,
): string {
  if (value === null || value === undefined) return MISSING;
  const digits = Math.abs(value) >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: most };
  return new Intl.NumberFormat(locale, { ...digits, signDisplay: "negative" }).format(value);
}

/** Return a number as a user entered it, without rounding, and its unit: `49.85 Hz`. */
export function exact(value: number | null | undefined, unit: string | null, locale: string): string {
  if (value === null || value === undefined) return MISSING;
  const text = new Intl.NumberFormat(locale, { maximumSignificantDigits: 15 }).format(value);
  return unit ? `${text}\u00a0${unit}` : text;
}

/** The sizes of units of power and energy, in W or Wh. */
const SIZES: Record<string, number> = { W: 1, kW: 1e3, MW: 1e6, Wh: 1, kWh: 1e3, MWh: 1e6 };

/**
 * Return a value in another unit, as the service compares thresholds with values.
 *
 * @param unit Unit of the value; null or "": it is a plain number, and so is the result.
 * @returns undefined if there is no conversion.
 */
export function converted(value: number, unit: string | null, to: string | null): number | undefined {
  if (!unit || !to || unit === to) return value;
  const [size, wanted] = [SIZES[unit], SIZES[to]];
  if (size === undefined || wanted === undefined || unit.endsWith("h") !== to.endsWith("h")) return undefined;
  return size >= wanted ? value * (size / wanted) : value / (wanted / size);
}

/** Return the sign of a power, and 0 for one that is shown as 0 or is not known. */
export function sign(kilowatts: number | null | undefined): -1 | 0 | 1 {
  if (kilowatts === null || kilowatts === undefined || Math.abs(kilowatts) < 0.0005) return 0;
  return kilowatts > 0 ? 1 : -1;
}

export function count(value: number, locale: string): string {
  return new Intl.NumberFormat(locale).format(value);
}

/** Return thousands of a unit with a fitting prefix. */
function scaled(thousands: number | null | undefined, unit: string, locale: string): string {
  if (thousands === null || thousands === undefined) return MISSING;
  // Rounded first: 999.6 W are 1.00 kW and not 1,000 W.
  const rounded = Number((thousands * 1000).toPrecision(3));
  const size = Math.abs(rounded);
  const { factor, prefix } = prefixOf(size);
  const number = size < 1 ? Math.round(rounded) : rounded / factor;
  const digits =
    size < 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3, minimumSignificantDigits: 3 };
  // Without a minus before zero.
  return `${new Intl.NumberFormat(locale, { ...digits, signDisplay: "negative" }).format(number)}\u00a0${prefix}${unit}`;
}

/** Return the prefix that fits a size in W or Wh. */
export function prefixOf(size: number): { factor: number; prefix: string } {
  return PREFIXES.find((one) => size >= one.factor) ?? { factor: 1, prefix: "" };
}
