import type { FleetPlant } from "../fleet";
import { useTexts } from "../i18n";
import { PlantSearch } from "./plant-search";

export type PickedPlant = Pick<FleetPlant, "id" | "name" | "serialNumber">;

interface Props {
  organizationId: string;
  /** None: all plants. */
  plants: readonly PickedPlant[];
  onChange: (plants: readonly PickedPlant[]) => void;
}

/** Choose some plants by a search, or all. */
export function PlantsPicker({ organizationId, plants, onChange }: Props) {
  const texts = useTexts();
  return (
    <fieldset className="block">
      <legend>{texts.groups.plants}</legend>
      {plants.length === 0 ? (
        <p>{texts.rules.allPlants}</p>
      ) : (
        <ul className="found">
          {plants.map(({ id, name, serialNumber }) => (
            <li key={id} className="toolbar">
              <span className="grow">
                {name} <span className="fine">{serialNumber}</span>
              </span>
              <button
                type="button"
                aria-label={texts.templates.removeNamed(name)}
                onClick={() => onChange(plants.filter((one) => one.id !== id))}
              >
                {texts.groups.remove}
              </button>
            </li>
          ))}
        </ul>
      )}
      <PlantSearch organizationId={organizationId} label={texts.partners.onlySome}>
        {(plant, clear) =>
          plants.some(({ id }) => id === plant.id) ? (
            <span className="fine">{texts.partners.isChosen(plant.name)}</span>
          ) : (
            <button
              type="button"
              onClick={() => {
                onChange([...plants, plant]);
                clear();
              }}
            >
              {plant.name} <span className="fine">{plant.serialNumber}</span>
            </button>
          )
        }
      </PlantSearch>
    </fieldset>
  );
}
