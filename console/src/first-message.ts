import type { DeviceTemplate, SubDevice } from "./devices";
import { fieldOf, type Signal } from "./signals";
import { signalsOf } from "./templates";

const MOST_DEVICES = 3;
const PLAIN = /^[\w.,:/=+-]+$/;

/** Return the name of the file in which a plant's package is saved: one that browsers keep and shells do not take for an option. */
export function packageFile(serialNumber: string): string {
  return `${serialNumber.replaceAll(/[^\p{L}\p{N}._-]/gu, "_").replace(/^[.-]/, "_")}.json`;
}

/** Return the command that sends a value of some devices, or of the plant itself if it has none, with a saved package. */
export function sendCommand(serialNumber: string, devices: SubDevice[], templates: DeviceTemplate[]): string {
  const values = devices.slice(0, MOST_DEVICES).flatMap((device) => {
    const template = templates.find(({ id }) => id === device.templateId);
    const field = template === undefined ? "power" : signalsOf(template).filter(isHarmless).map(fieldOf)[0];
    return field === undefined ? [] : [`${device.externalId}.${field}=1`];
  });
  const words = [packageFile(serialNumber), ...(values.length > 0 ? values : ["power=1"])];
  return `gridfleet send ${words.map(quoted).join(" ")}`;
}

/** Return whether a value of 1 does no harm: as a counter's first reading or a state of charge, it would stay wrong or alarm. */
function isHarmless({ key, bit, kind, role, unit }: Signal): boolean {
  const isCounter = kind === "counter" || /^energy_/.test(`${role ?? key}`) || /Wh$/.test(unit ?? "");
  return !isCounter && (bit ?? null) === null && unit !== "%" && role !== "soc" && role !== "soh";
}

/** Return a word as shells read it. */
function quoted(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
