import { useTexts } from "../i18n";
import { PlantName } from "../ui/plant-name";
import { PlantSearch } from "./plant-search";

interface Props {
  organizationId: string;
  slug: string;
  /** Null: all plants. */
  plantId: string | null;
  onChange: (plantId: string | null) => void;
}

/** Choose one plant by a search, or all. */
export function PlantPicker({ organizationId, slug, plantId, onChange }: Props) {
  const texts = useTexts();
  return (
    <fieldset className="block">
      <legend>{texts.rules.plant}</legend>
      <div className="toolbar">
        {plantId === null ? (
          <span>{texts.rules.allPlants}</span>
        ) : (
          <>
            <PlantName organizationId={organizationId} slug={slug} plantId={plantId} />
            <button type="button" onClick={() => onChange(null)}>
              {texts.rules.watchAll}
            </button>
          </>
        )}
      </div>
      <PlantSearch organizationId={organizationId} label={texts.rules.watchOne}>
        {({ id, name, serialNumber }, clear) => (
          <button
            type="button"
            onClick={() => {
              onChange(id);
              clear();
            }}
          >
            {name} <span className="fine">{serialNumber}</span>
          </button>
        )}
      </PlantSearch>
    </fieldset>
  );
}
