import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { FleetPlant } from "../fleet";
import { foundPlantsQuery } from "../groups";
import { useTexts } from "../i18n";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";

interface Props {
  organizationId: string;
  label: string;
  /** Return what is shown of a plant; `clear` empties the field. */
  children: (plant: FleetPlant, clear: () => void) => ReactNode;
}

/** A field that finds plants, and the first that match. */
export function PlantSearch({ organizationId, label, children }: Props) {
  const texts = useTexts();
  const [q, setQ] = useState("");
  const found = useQuery(foundPlantsQuery(organizationId, q.trim()));
  return (
    <>
      <Field
        label={label}
        type="search"
        value={q}
        maxLength={100}
        onChange={(event) => setQ(event.target.value)}
        // Enter would submit a form around this field.
        onKeyDown={(event) => event.key === "Enter" && event.preventDefault()}
      />
      <Failure error={found.error} />
      {found.data?.data.length === 0 && <p className="fine">{texts.fleet.none}</p>}
      <ul className="found">
        {found.data?.data.map((plant) => (
          <li key={plant.id} className="toolbar">
            {children(plant, () => setQ(""))}
          </li>
        ))}
      </ul>
    </>
  );
}
