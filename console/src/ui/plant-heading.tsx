import { Link } from "@tanstack/react-router";

interface Props {
  slug: string;
  plant: { id: string; name: string; serialNumber: string };
  /** The tab that the link opens; without it, the first one. */
  tab?: "trading" | "devices";
}

/** The heading of a row about a plant: its name, which links to it, and its serial number. */
export function PlantHeading({ slug, plant, tab }: Props) {
  return (
    <th scope="row">
      <Link
        to={tab === undefined ? "/o/$slug/plants/$plantId" : `/o/$slug/plants/$plantId/${tab}`}
        params={{ slug, plantId: plant.id }}
      >
        {plant.name}
      </Link>
      <span className="fine">{plant.serialNumber}</span>
    </th>
  );
}
