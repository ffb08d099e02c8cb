import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { plantQuery } from "../plants";

interface Props {
  organizationId: string;
  slug: string;
  plantId: string;
}

/** The name of a plant as a link to it; its id until the name is known. */
export function PlantName({ organizationId, slug, plantId }: Props) {
  // With the usual key, each message of the plant would read it again.
  const plant = useQuery({ ...plantQuery(organizationId, plantId, "plant-name"), staleTime: 60_000 });
  return (
    <Link to="/o/$slug/plants/$plantId" params={{ slug, plantId }}>
      {plant.data?.name ?? plantId}
    </Link>
  );
}
