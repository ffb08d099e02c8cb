import { given } from "./api/client";
import type { components } from "./api/schema";

export type Signal = components["schemas"]["Signal"];
export type SignalRole = components["schemas"]["SignalRole"];

export const ROLES: readonly SignalRole[] = [
  "pv_power",
  "battery_power",
  "grid_power",
  "load_power",
  "soc",
  "soh",
  "energy_produced",
  "energy_imported",
  "energy_exported",
  "energy_charged",
  "energy_discharged",
];

/** The field of binary signals that name none. */
const DEFAULT_WORD = "status";
const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i;
const WORD_BITS = 64n;

/** Return the field of a message that a signal reads. */
export function fieldOf({ field, word }: Signal): string {
  return field ?? word ?? DEFAULT_WORD;
}

/**
 * Return what the service stores for a value of a signal's field.
 *
 * @param raw The value as it is written in the message: a number, `true` or `false`.
 * @returns null if nothing is stored.
 */
export function decoded({ bit, invert = false, scale = 1, offset = 0 }: Signal, raw: string): number | null {
  if (bit !== undefined) {
    const word = wordOf(raw);
    return word === null ? null : Number(((word >> BigInt(bit)) & 1n) ^ (invert ? 1n : 0n));
  }
  const number = raw === "true" ? 1 : raw === "false" ? 0 : JSON_NUMBER.test(raw) ? Number(raw) : Number.NaN;
  const value = scaled(number, scale, offset);
  return Number.isFinite(value) ? value : null;
}

/** Return raw × scale + offset with the digits of the decimals, as the service does: 413 × 0.1 is 41.3. */
function scaled(raw: number, scale: number, offset: number): number {
  const divisor = 10 ** Math.max(placesOf(scale), placesOf(offset));
  const [factor, added] = [Math.round(scale * divisor), Math.round(offset * divisor)];
  const value = (raw * factor + added) / divisor;
  const isExact = [factor, added, divisor].every(Number.isSafeInteger) && Number.isFinite(value);
  return isExact ? value : raw * scale + offset;
}

/** Return the number of decimal places. */
function placesOf(number: number): number {
  const [digits = "", exponent = "0"] = String(number).split("e");
  return Math.max(0, (digits.split(".")[1]?.length ?? 0) - Number(exponent));
}

/** Return whether a decoded value is within the signal's limits; others are stored and flagged. */
export function isPlausible({ min, max }: Signal, value: number): boolean {
  return (min === undefined || value >= min) && (max === undefined || value <= max);
}

/** Return the bits of a field; null if it is no whole number from 0 to 2^64 - 1. */
function wordOf(raw: string): bigint | null {
  if (!JSON_NUMBER.test(raw)) return null;
  // Digits alone are kept exact: a number of JavaScript loses the lowest of 64 bits.
  if (!/^-?\d+$/.test(raw) && !Number.isInteger(Number(raw))) return null;
  const word = /^-?\d+$/.test(raw) ? BigInt(raw) : BigInt(Number(raw));
  return word < 0n || word >> WORD_BITS > 0n ? null : word;
}

/** Return the signal that a form describes, without the fields that were left empty. */
export function signalOf(form: FormData): Signal {
  const text = (name: string) => String(form.get(name) ?? "").trim() || undefined;
  const number = (name: string) => (text(name) === undefined ? undefined : Number(text(name)));
  return given({
    key: text("key") ?? "",
    label: text("label"),
    field: text("field"),
    unit: text("unit"),
    scale: number("scale"),
    offset: number("offset"),
    min: number("min"),
    max: number("max"),
    kind: text("kind") as Signal["kind"],
    role: text("role") as Signal["role"],
    symbols: symbolsOf(text("symbols")),
    bit: number("bit"),
    word: text("word"),
    severity: text("severity") as Signal["severity"],
    invert: form.has("invert") ? true : undefined,
  });
}

/** Return the texts of values from lines such as `0 = Off`. */
function symbolsOf(text: string | undefined): Record<string, string> | undefined {
  const lines = text?.split("\n").filter((line) => line.trim() !== "");
  return lines && Object.fromEntries(lines.map((line) => [before(line, "="), after(line, "=")]));
}

/** Return the texts of values as lines. */
export function symbolLines(symbols: Record<string, string> = {}): string {
  return Object.entries(symbols)
    .map(([value, label]) => `${value} = ${label}`)
    .join("\n");
}

function before(line: string, separator: string): string {
  return line.split(separator, 1)[0]?.trim() ?? "";
}

function after(line: string, separator: string): string {
  return line.split(separator).slice(1).join(separator).trim();
}
