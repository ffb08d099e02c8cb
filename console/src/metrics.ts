import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { allSubDevicesQuery, type DeviceTemplate, type SubDevice } from "./devices";
import { plantQuery } from "./plants";
import type { Signal, SignalRole } from "./signals";
import { signalsOf, templatesOfAllLevelsQuery } from "./templates";

/** A metric as people name it: by its device and by the label of its signal. */
export interface MetricName {
  /** The name of the device, its external id if the device is not known, "" for the plant itself. */
  device: string;
  /** The label of the signal in the user's language, its key if the template has no label for it. */
  label: string;
  signal: Signal | undefined;
}

/** Return the external id of the device of a metric ("" for the plant itself), and the key of its signal. */
export function partsOf(metric: string): [externalId: string, key: string] {
  const dot = metric.indexOf(".");
  return dot < 0 ? ["", metric] : [metric.slice(0, dot), metric.slice(dot + 1)];
}

/** Return the name of a metric, from the templates of the plant and of its devices, which are given by external id. */
export function metricName(
  metric: string,
  plantTemplateId: string | null,
  devices: ReadonlyMap<string, SubDevice>,
  templates: readonly DeviceTemplate[],
  labelOf: (label: string) => string,
): MetricName {
  const [externalId, key] = partsOf(metric);
  const device = devices.get(externalId);
  const templateId = externalId === "" ? plantTemplateId : device?.templateId;
  const template = templates.find(({ id }) => id === templateId);
  const signal = template && signalsOf(template).find((one) => one.key === key);
  return { device: device?.name ?? externalId, label: labelOf(signal?.label ?? key), signal };
}

/** Return the name of a metric in one line, with that of its device unless it is one of the plant itself. */
export function fullName({ device, label }: MetricName): string {
  return device === "" ? label : `${device}: ${label}`;
}

/** Return a function that names the metrics of a plant. It returns keys and external ids until devices and templates are loaded. */
export function useMetricNames(
  organizationId: string,
  plantId: string,
  labelOf: (label: string) => string,
): (metric: string) => MetricName {
  const plant = useQuery(plantQuery(organizationId, plantId));
  const devices = useQuery(allSubDevicesQuery(organizationId, plantId));
  const templates = useQuery(templatesOfAllLevelsQuery);
  const templateId = plant.data?.templateId ?? null;
  // A plant may have thousands of devices, whose values are named again each second.
  const known = useMemo(() => new Map(devices.data?.map((device) => [device.externalId, device])), [devices.data]);
  return useCallback(
    (metric) => metricName(metric, templateId, known, templates.data ?? [], labelOf),
    [templateId, known, templates.data, labelOf],
  );
}

/** Return a value as a word if its signal has one for it: the symbol of a number, yes or no for a bit; null if not. */
export function valueWord(
  signal: Signal | undefined,
  value: number,
  yesOrNo: (isSet: boolean) => string,
): string | null {
  const symbol = signal?.symbols?.[String(value)];
  if (symbol !== undefined) return symbol;
  return signal?.bit !== undefined && (value === 0 || value === 1) ? yesOrNo(value === 1) : null;
}

/** Words for a sign: 1, -1, or 0 for neither. */
export type SignWord = (sign: -1 | 0 | 1) => string;

/** Return the word for the sign of a power whose signal has a role with words, such as importing; "" for any other value, and for 0. */
export function signWord(
  signal: Signal | undefined,
  value: number,
  words: Partial<Record<SignalRole, SignWord>>,
): string {
  const word = signal?.role && words[signal.role];
  return word === undefined ? "" : word(value > 0 ? 1 : value < 0 ? -1 : 0);
}

/** Return the severity of a bit that is set and says that something is wrong; undefined for any other value. */
export function alarmOf(signal: Signal | undefined, value: number): Signal["severity"] {
  return value === 1 && signal?.severity !== "INFO" ? signal?.severity : undefined;
}
