import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { allPlants, type FleetFilters, type FleetPlant, type Progress } from "../fleet";
import { loadAnew } from "./lazy-part";
import { saveFile } from "./save-file";

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
  const selectAll = useMutation({
    mutationFn: async () => {
      const all = await matching();
      change(() => new Set(all.map(({ id }) => id)));
    },
    onSettled: () => setProgress(null),
  });
  const save = useMutation({
    mutationFn: async () => {
      const { csvOfPlants } = await import("../fleet-csv").catch(loadAnew);
      saveFile("plants.csv", csvOfPlants(await (ids.size > 0 ? selected() : matching())));
    },
    onSettled: () => setProgress(null),
  });
  return {
    ids,
    isAll: ids.size > 0 && total !== undefined && ids.size >= total,
    /** How many plants are read; null while none are. */
    progress,
    isReading: selectAll.isPending || save.isPending,
    error: selectAll.error ?? save.error,
    select: (id: string, isSelected: boolean) =>
      change((before) => new Set(isSelected ? [...before, id] : [...before].filter((other) => other !== id))),
    selectAll: selectAll.mutate,
    clear: () => change(() => NONE),
    /** Save those that are selected as a file, or all that match without a selection. */
    save: save.mutate,
  };
}
