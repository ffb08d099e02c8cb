import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { foundPlantsQuery } from "../groups";
import { useTexts } from "../i18n";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { PlantName } from "../ui/plant-name";

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
  const [q, setQ] = useState("");
  const found = useQuery(foundPlantsQuery(organizationId, q.trim()));
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
      <Field
        label={texts.rules.watchOne}
        type="search"
        value={q}
        maxLength={100}
        onChange={(event) => setQ(event.target.value)}
        // Enter would submit the form around this field.
        onKeyDown={(event) => event.key === "Enter" && event.preventDefault()}
      />
      <Failure error={found.error} />
      {found.data?.data.length === 0 && <p className="fine">{texts.fleet.none}</p>}
      <ul className="found">
        {found.data?.data.map(({ id, name, serialNumber }) => (
          <li key={id}>
            <button
              type="button"
              onClick={() => {
                onChange(id);
                setQ("");
              }}
            >
              {name} <span className="fine">{serialNumber}</span>
            </button>
          </li>
        ))}
      </ul>
    </fieldset>
  );
}
