import type { DeviceTemplate } from "./devices";
import { fieldOf, type Signal } from "./signals";

/** A template that may describe a device. `unread` has those of the device's fields that no signal of it reads. */
export interface TemplateChoice {
  template: DeviceTemplate;
  unread: string[];
}

type NamedTemplate = Pick<DeviceTemplate, "name" | "version">;

/** Return those of a device's fields that no signal of the template reads: their values are not stored. */
export function unreadBy(template: DeviceTemplate, fields: readonly string[]): string[] {
  const known = fieldsOf(template);
  return fields.filter((field) => !known.has(field));
}

/**
 * Return the template that reads the most of a device's fields; of several versions, the highest.
 *
 * @returns null if each template reads less than half of the fields, or if templates of several names read as many.
 */
export function templateFor(fields: readonly string[], templates: readonly DeviceTemplate[]): TemplateChoice | null {
  const [best, ...others] = templates
    .map((template) => ({ template, unread: unreadBy(template, fields) }))
    .filter(({ unread }) => fields.length > 0 && unread.length <= fields.length / 2)
    .sort((a, b) => a.unread.length - b.unread.length || b.template.version - a.template.version);
  const isRival = ({ template, unread }: TemplateChoice) =>
    unread.length === best?.unread.length && template.name !== best.template.name;
  return best === undefined || others.some(isRival) ? null : best;
}

/** Return the name of one of these templates, with its version if another one has the same name. */
export function nameAmong(
  { name, version }: NamedTemplate,
  templates: readonly NamedTemplate[],
  textOf: (version: number) => string,
): string {
  const isOnly = templates.every((other) => other.name !== name || other.version === version);
  return isOnly ? name : `${name}, ${textOf(version)}`;
}

function fieldsOf({ signals }: DeviceTemplate): Set<string> {
  return new Set((signals as Signal[]).map(fieldOf));
}
