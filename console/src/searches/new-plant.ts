import { type ListSearch, listSearch } from "./list";
import { idOf, numberOf } from "./values";

/** What the URL says about the page; the list is that of the devices. */
export interface NewPlantSearch extends ListSearch {
  /** Id of the plant that was registered in the first step. */
  plant?: string | undefined;
  /** The step that is shown: devices, package, first message. */
  step?: 2 | 3 | 4 | undefined;
}

/** Return the step of the page; the first one for a link without a plant. */
export function newPlantSearch({ plant: id, step, ...list }: Record<string, unknown>): NewPlantSearch {
  const plant = idOf(id);
  if (plant === undefined) return { plant, step: undefined };
  const shown = numberOf(step);
  return { plant, step: shown === 3 || shown === 4 ? shown : 2, ...listSearch(list) };
}
