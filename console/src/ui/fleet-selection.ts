import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { allPlants, type FleetFilters, type FleetPlant, type Progress } from "../fleet";
import { loadAnew } from "./lazy-part";

const NONE: ReadonlySet<string> = new Set();

export type FleetSelection = ReturnType<typeof useFleetSelection>;

/**
 * Select plants by their ids, and export them. Other filters empty the selection.
 *
 * @param plants - Those that match the filters and are loaded.
 * @param total - The number of those that match, also if they are not loaded.
 */
export function useFleetSelection(
  organizationId: string,
  filters: FleetFilters,
  plants: readonly FleetPlant[],
  total: number | undefined,
) {
  const key = JSON.stringify(filters);
  const [{ of, ids }, setSelection] = useState({ of: key, ids: NONE });
  const [progress, setProgress] = useState<Progress | null>(null);
  if (of !== key) setSelection({ of: key, ids: NONE });
  /** Select others, unless the filters have changed meanwhile. */
  const change = (changed: (before: ReadonlySet<string>) => ReadonlySet<string>) =>
    setSelection((before) => (before.of === key ? { of: key, ids: changed(before.ids) } : before));
  const read = (which: FleetFilters) => allPlants(organizationId, which, setProgress);
  /** Return all that match, without a request if they are loaded. */
  const matching = async () => (new Set(plants.map(({ id }) => id)).size === total ? plants : read(filters));
  /** Return those that are selected. A plant may have left the filters since it was. */
  const selected = async () => {
    const loaded = plants.filter(({ id }) => ids.has(id));
    return loaded.length === ids.size ? loaded : (await read({})).filter(({ id }) => ids.has(id));
  };
  const reading = useMutation({
    mutationFn: (act: () => Promise<void>) => act(),
    onSettled: () => setProgress(null),
  });
  const selectAll = async () => {
    const all = await matching();
    change(() => new Set(all.map(({ id }) => id)));
  };
  const leaveOutDeleted = async () => {
    const known = new Set((await read({})).map(({ id }) => id));
    change((before) => new Set([...before].filter((id) => known.has(id))));
  };
  const save = async () => {
    const { savePlants } = await import("../fleet-csv").catch(loadAnew);
    savePlants(await (ids.size > 0 ? selected() : matching()));
  };
  return {
    ids,
    isAll: ids.size > 0 && total !== undefined && ids.size >= total,
    /** How many plants are read; null while none are. */
    progress,
    isReading: reading.isPending,
    error: reading.error,
    select: (id: string, isSelected: boolean) =>
      change((before) => new Set(isSelected ? [...before, id] : [...before].filter((other) => other !== id))),
    selectAll: () => reading.mutate(selectAll),
    clear: () => change(() => NONE),
    /** Select no longer those that were deleted. */
    leaveOutDeleted: () => reading.mutate(leaveOutDeleted),
    /** Save those that are selected as a file, or all that match without a selection. */
    save: () => reading.mutate(save),
  };
}
