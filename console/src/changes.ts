import type { components } from "./api/schema";
import { dateTime } from "./format/times";
import type { Catalogue } from "./i18n";
import type { changes as english } from "./i18n/en/changes";

export type AuditEvent = components["schemas"]["AuditEvent"];

/** What the details of an event are described with. */
export interface Words {
  texts: Catalogue;
  changes: typeof english;
  /** Names of users, keys and templates by their ids. */
  names: ReadonlyMap<string, string>;
  timeZone: string;
  locale: string;
}

/** A fact about an event; `label` is "" for one that the name of the event explains. */
export interface Fact {
  label: string;
  text: string;
}

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/;

/** Return what an event is called; its own name if a newer service records it. */
export function eventText({ events }: typeof english, name: string): string {
  return (events as Record<string, string>)[name] ?? name;
}

/** Return the details of an event in words. Ids without a name are left out: the list shows them on request. */
export function factsOf({ event, details }: AuditEvent, words: Words): Fact[] {
  const { from, to, ...others } = details;
  // A role or an address before and after.
  const replaced: [string, unknown][] = from === undefined || to === undefined ? [] : [["", [from, to]]];
  const isChange = /changed$/.test(event);
  return [...replaced, ...Object.entries(others)].flatMap(([name, value]) => {
    const isPair = Array.isArray(value) && value.length === 2 && (name === "" || isChange);
    const text = isPair && name !== "changed" ? pairText(name, value, words) : valueText(name, value, words);
    return text === null ? [] : [{ label: fieldText(name, words), text }];
  });
}

function pairText(name: string, values: unknown[], words: Words): string {
  const shown = values.map((value) => valueText(name, value, words));
  return shown.includes(null) ? words.changes.changed : shown.join(" → ");
}

/** Return a value in words; null for an id without a name. */
function valueText(name: string, value: unknown, words: Words): string | null {
  const { texts, changes, names, timeZone, locale } = words;
  if (value === null || value === "") return "–";
  if (typeof value === "boolean") return texts.templates.bitValue(value);
  if (typeof value === "number") return value.toLocaleString(locale, { maximumSignificantDigits: 15 });
  if (Array.isArray(value)) {
    const shown = value.map((one) =>
      name === "changed" ? fieldText(String(one), words) : valueText(name, one, words),
    );
    return shown.includes(null) ? null : shown.join("; ");
  }
  if (typeof value !== "string") return JSON.stringify(value);
  if (value === "changed") return changes.changed;
  if (name === "changed") return fieldText(value, words);
  if (ID.test(value)) return names.get(value) ?? null;
  if (TIME.test(value)) return dateTime(value, timeZone, locale);
  return symbolsOf(texts, name)[value] ?? value;
}

/** Return the words for the values of a field that has a fixed set of them; "" is a role. */
function symbolsOf(texts: Catalogue, field: string): Readonly<Record<string, string>> {
  switch (field) {
    case "":
    case "role":
      return texts.role;
    case "severity":
      return texts.severity;
    case "condition":
      return texts.rules.comparisons;
    case "authMethod":
      return texts.credentials.methods;
    case "type":
      return { ...texts.newPlant.types, ...texts.devices.types };
    case "scopes":
      return texts.partners.explained;
    default:
      return {};
  }
}

function fieldText(name: string, { changes }: Words): string {
  return (changes.fields as Record<string, string>)[name] ?? name;
}
